"""What runs where: devices, and several processes."""
