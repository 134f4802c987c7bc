"""How an experiment runs: programs, lanes on devices, callbacks, stores."""
