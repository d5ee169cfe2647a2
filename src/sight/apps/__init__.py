"""Programs on top of the library: command line, live streams, service, cohorts, fleets and benchmark."""
