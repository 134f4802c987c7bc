"""Looking at an experiment: before it runs, at one of its rounds, from one of its states on."""
