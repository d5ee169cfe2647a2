"""Base of methods that back-propagate at test time, and the parts they share; requires torch."""
