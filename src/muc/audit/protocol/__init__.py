"""The audit as steps on disk: commit to a random split, ask two models, judge, and let anybody check it.

    start     draws the split, writes the secret and publishes only its hash    (start.py, folder.py)
    collect   asks a model, batch by batch                                      (queries.py, pictures.py, collect.py)
    verdict   from the stored vectors to a signed verdict                       (judge.py, publish.py)
    verify    the same again, by anybody, from the files alone                  (verify.py)

Like all of `muc.audit` it sees nothing of a model but `embed(pictures) -> vectors`.
"""
