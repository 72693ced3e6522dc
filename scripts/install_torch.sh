#!/bin/sh
# Install PyTorch: its build for CPUs on Linux without an NVIDIA GPU, 200 MB instead of 3 GB.
#
#     scripts/install_torch.sh PIP SPEC INDEX
#
# INDEX is a package index, "" for that of pip, or "auto": PyTorch's index for CPUs, unless the
# settings of pip name an index, and pip's own where PyTorch's cannot be reached.
set -eu
pip=$1 spec=$2 index=$3
if [ "$index" = auto ]; then
    index=
    if [ "$(uname)" = Linux ] && [ ! -e /dev/nvidiactl ] \
        && ! "$pip" config list | grep -qE 'index-url|find-links'; then
        "$pip" install "$spec" --index-url https://download.pytorch.org/whl/cpu && exit
        echo "PyTorch's index for CPUs cannot be reached; installing from the index of pip" >&2
    fi
fi
exec "$pip" install "$spec" ${index:+--index-url "$index"}
