"""The embedding endpoint: what a model owner runs so that data owners can audit the models before and after.

keys, rotation      who may ask, how much, and in which coordinates the answers are
limits, slots,      how much one client, and all together, may take up
worker, connections
upload, picture     from the bytes of a request to pixels, refusing before spending
pair                the two models
app, schemas,       the protocol over HTTP, and its description
answers
static, page/       what a browser sees at /
server              from two runs to a listening socket
"""
