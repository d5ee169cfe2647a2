"""The benchmark: experiments of the paper by one command, and the cost of every method."""
