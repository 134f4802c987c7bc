"""How an experiment runs: programs, lanes on devices, what is told and kept."""
