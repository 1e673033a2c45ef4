"""Where the audit itself is put to the test: false alarms on real encoders, and model owners who cheat.

A package of its own, because it trains models; `muc.audit` sees embeddings only and imports nothing of the kind.
"""
