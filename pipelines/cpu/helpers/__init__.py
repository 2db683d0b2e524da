"""How a caller shares the workgroups of its kernels with other threads, on x86-64 under Linux.

IREE's runtime calls a kernel for each workgroup. Instead the call for the first one does them all: it puts
into the mailbox what IREE has called it with, and takes workgroup after workgroup, as do helpers that see it
there, until none is left. Then it takes the job back, and waits for who is still at work.
"""
