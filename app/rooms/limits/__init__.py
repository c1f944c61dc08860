"""Places under the limits of turns: a turn takes one before it begins, or waits in line for it.

`slots` hands them out, so that no two workers give away the last one; `schedule` computes when one is free; `terms` are
the settings; `status` is what people are shown. A rank below rooms.waiting, which says what happens to a turn; may
import what rooms may.
"""
