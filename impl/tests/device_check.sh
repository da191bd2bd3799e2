#!/usr/bin/env bash
# What only a GPU can show, in at most four minutes: content law, refusal digest, batched decode, waiting and bandwidth.
# On a machine without CUDA it runs on the CPU what it can, and says what it skipped.
#
#   impl/tests/device_check.sh [PYTHON]     PYTHON has torch; nothing else is needed
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONPATH="$PWD/.typecheck${PYTHONPATH:+:$PYTHONPATH}"
exec timeout 240 "${1:-python3}" -m slotproof.impl.tests.device_check
