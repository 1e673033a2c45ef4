"""The command line: thin wrappers that parse flags, call the library and print. Nothing heavy is imported here."""
