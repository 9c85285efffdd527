# SPDX-License-Identifier: MIT
"""What spcore_convert.py is made of."""
