"""How data are spread over clients."""
