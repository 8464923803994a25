"""A driver program that kills itself with SIGKILL as soon as it is started."""

import os
import signal

if __name__ == "__main__":
    os.kill(os.getpid(), signal.SIGKILL)
