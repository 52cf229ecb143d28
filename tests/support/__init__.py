"""What several tests use: an endpoint that fails on demand, objectives, and what every optimizer must do."""
