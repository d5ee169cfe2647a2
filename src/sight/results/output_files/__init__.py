"""Files of results: tables, report and run information, scores."""
