"""Devices: what the adapter does with tensors that are not in the host's memory.

Times of a device, statistics and copies are enqueued in the stream in which the tensor was made,
and read once the device has come to them: nothing here waits for a device on a thread of the
program, unless the person looks at a value.

`runtime` is the device of the process; `driver` calls CUDA. Tests put another driver there, which
lets the device come to things when the test says so.
"""
