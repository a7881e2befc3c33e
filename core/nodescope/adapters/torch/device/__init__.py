"""Devices: how the adapter handles tensors that are not in the host's memory.

Events for times, statistics and copies are enqueued in the stream in which the tensor was made, and
read once the device has reached them. No thread of the program waits for a device here, unless the
user looks at a value.

`runtime` holds the devices of the process; `driver` calls CUDA. Tests install another driver, in
which the test decides when the device reaches an event.
"""
