"""`ray`, but its heads start no Ray Client server: nobody asks it here, and the head ends with it.

It gives up when the rest of the head takes longer than half a minute, as it may on a busy machine of two cores.
Run by the Python of Ray's environment; kvrelay is not installed there.
"""

from ray.scripts import scripts

scripts.get_ray_client_dependency_error = lambda: "not wanted here"

if __name__ == "__main__":
    scripts.main()
