"""Networks that turn windows into features, each with a linear head; all of about the size of the paper's CNN."""
