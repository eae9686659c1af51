"""Processes that fork and leave, again and again, so that whoever looks for them finds the last one gone."""

import os
import time

for _ in range(3):
    if os.fork() == 0:
        break
else:
    os.write(1, b"ready\n")
os.setsid()
ends = time.monotonic() + 60  # in case the test is broken
while time.monotonic() < ends:
    if os.fork():
        os._exit(0)
    os.setsid()
