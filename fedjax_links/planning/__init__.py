"""What an experiment consists of: its parts, lanes, draws and tuning."""
