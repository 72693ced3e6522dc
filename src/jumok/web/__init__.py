"""What the servers of `jumok view` and `jumok serve` share: access, requests, errors, routes."""
