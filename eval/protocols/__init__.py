"""Follow the protocols of the papers: the settings of every table by name, and a run's departures from them."""
