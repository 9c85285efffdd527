# SPDX-License-Identifier: MIT
# Stands for the C unit tests where Check is not installed.
echo 'skipped: the C unit tests need the library Check (Debian: apt install check), then configure again'
exit 77
