"""The embedded task and the main job: a model that trains itself in seconds, scored and saved."""
