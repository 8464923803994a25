"""Problems of a job, their causes and the advised actions: pure rules over one observation."""
