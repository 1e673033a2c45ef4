"""Pictures: what of a file is read, and processes that decode many. Loads no torch."""
