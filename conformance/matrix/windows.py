"""Cases that change windows, sessions and watermarks, in all output modes."""

from __future__ import annotations

from conformance.matrix.case import ALL, Case, Job, Outcome, in_group
from conformance.matrix.data import LATE


def _window(
    window: str = '"ts", "10 minutes"',
    *,
    delay: str = "10 minutes",
    key: str = '{w}, "k"',
    value: str = 'F.sum("x").alias("s")',
    mode: str = "append",
) -> Job:
    marked = f's.withWatermark("ts", "{delay}")' if delay else "s"
    return Job(f"{marked}.groupBy({key.format(w=f'F.window({window})')}).agg({value})", mode=mode)


def _session(gap: str, value: str = 'F.sum("x").alias("s")') -> Job:
    return Job(
        f's.withWatermark("ts", "10 minutes").groupBy(F.session_window("ts", "{gap}"), "k").agg({value})', mode="append"
    )


def _made(delay: str) -> Job:
    at = 's.withColumn("at", F.coalesce("ts", F.to_timestamp("k")))'
    return Job(
        f'{at}.withWatermark("at", "{delay}").groupBy(F.window("at", "10 minutes"), "k").agg(F.sum("x").alias("s"))'
    )


_LATER = 's.withColumn("t2", F.expr("ts + interval 30 minutes"))'
APPEND = _window()
UPDATE = _window(mode="update")
COMPLETE = _window(mode="complete")
BARE = _window(delay="", mode="update")

SHAPES = (
    Case("win_same", "control: unchanged windowed append query", APPEND, APPEND, "none", providers=ALL),
    Case(
        "win_size_10_to_20",
        "window 10m -> 20m (update)",
        BARE,
        _window('"ts", "20 minutes"', delay="", mode="update"),
        "window",
        data=LATE,
    ),
    Case(
        "win_size_append",
        "window 10m -> 5m (append)",
        APPEND,
        _window('"ts", "5 minutes"'),
        "window",
        providers=("rocksdb", "v2"),
    ),
    Case(
        "win_slide_added",
        "tumbling 10m -> sliding 10m/5m (update)",
        UPDATE,
        _window('"ts", "10 minutes", "5 minutes"', mode="update"),
        "window",
    ),
    Case(
        "win_slide_changed",
        "sliding 10m/5m -> 10m/2m",
        _window('"ts", "10 minutes", "5 minutes"', delay="", mode="update"),
        _window('"ts", "10 minutes", "2 minutes"', delay="", mode="update"),
        "window",
        data=LATE,
    ),
    Case(
        "win_start_offset",
        "window startTime 0 -> 2m",
        BARE,
        _window('"ts", "10 minutes", "10 minutes", "2 minutes"', delay="", mode="update"),
        "window",
        data=LATE,
    ),
    Case("win_key_order", "window,k -> k,window", APPEND, _window(key='"k", {w}'), "key"),
    Case(
        "win_key_added", "window,k -> window,k,k2", APPEND, _window(key='{w}, "k", "k2"'), "key", providers=("rocksdb",)
    ),
    Case(
        "win_key_swapped",
        "window,k -> window,k2 (update)",
        BARE,
        _window(delay="", key='{w}, "k2"', mode="update"),
        "key",
        data=LATE,
        providers=("rocksdb",),
    ),
    Case(
        "win_time_column",
        "the window's time: ts -> ts + 6 minutes",
        BARE,
        _window('F.expr("ts + interval 6 minutes"), "10 minutes"', delay="", mode="update"),
        "window",
        data=LATE,
        providers=("rocksdb",),
    ),
    Case(
        "win_time_column_other",
        "another time column for the window",
        BARE,
        BARE.but(
            df=BARE.df.replace("s.", 's.withColumn("t2", F.expr("timestamp_seconds(x * 60)")).', 1).replace(
                'F.window("ts"', 'F.window("t2"'
            )
        ),
        "window",
        data=LATE,
    ),
    Case(
        "win_alias",
        "window column renamed",
        APPEND,
        APPEND.but(df=APPEND.df.replace('F.window("ts", "10 minutes")', 'F.window("ts", "10 minutes").alias("w")')),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "win_fields_above",
        "window.start and window.end taken out above",
        APPEND,
        APPEND.but(df=f'{APPEND.df}.select("window.start", "window.end", "k", "s")'),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "win_sum_to_max",
        "windowed sum(x) -> max(x)",
        BARE,
        _window(delay="", value='F.max(F.col("x").cast("long")).alias("s")', mode="update"),
        "aggregate",
        data=LATE,
    ),
    Case(
        "win_size_spelled",
        "'10 minutes' -> '600 seconds'",
        APPEND,
        _window('"ts", "600 seconds"'),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "win_to_date_key",
        "window of a day -> date of ts as the key",
        _window('"ts", "1 day"', delay="", mode="update"),
        _window(delay="", key='F.to_date("ts").alias("d"), "k"', mode="update"),
        "key",
        providers=("rocksdb",),
    ),
    Case(
        "win_session_same",
        "control: unchanged session window",
        _session("3 minutes"),
        _session("3 minutes"),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "win_session_agg",
        "session window sum(x) -> max(x)",
        _session("3 minutes"),
        _session("3 minutes", 'F.max("x").alias("s")'),
        "aggregate",
    ),
    Case(
        "win_session_agg_long",
        "session window sum(x) -> max(long x)",
        _session("5 minutes"),
        _session("5 minutes", 'F.max(F.col("x").cast("long")).alias("s")'),
        "aggregate",
    ),
    Case("win_session_gap", "session gap 3m -> 20m", _session("3 minutes"), _session("20 minutes"), "window"),
    Case(
        "win_session_gap_down",
        "session gap 20m -> 3m",
        _session("20 minutes"),
        _session("3 minutes"),
        "window",
        providers=("rocksdb",),
    ),
    Case(
        "win_tumbling_to_session",
        "tumbling -> session",
        APPEND,
        _session("10 minutes"),
        "window",
        providers=("rocksdb",),
    ),
)

WATERMARKS = (
    Case(
        "win_delay_down",
        "watermark delay 30m -> 1m (append)",
        _window(delay="30 minutes"),
        _window(delay="1 minute"),
        "watermark",
    ),
    Case(
        "win_delay_up",
        "watermark delay 1m -> 30m (append), no late rows",
        _window(delay="1 minute"),
        _window(delay="30 minutes"),
        "watermark",
        providers=("rocksdb",),
        twin="win_delay_up_late",
    ),
    Case(
        "win_delay_up_late",
        "watermark delay 1m -> 30m, late rows arrive",
        _window(delay="1 minute", mode="update"),
        _window(delay="30 minutes", mode="update"),
        "watermark",
        data=LATE,
    ),
    Case(
        "win_delay_up_late_made",
        "watermark delay 1m -> 30m of a column that is made of two, late rows arrive",
        _made("1 minute"),
        _made("30 minutes"),
        "watermark",
        data=LATE,
    ),
    Case(
        "win_delay_spelled",
        "'10 minutes' -> '600 seconds'",
        APPEND,
        _window(delay="600 seconds"),
        "none",
        providers=("rocksdb",),
    ),
    Case(
        "win_removed_update",
        "watermark removed (update)",
        UPDATE,
        BARE,
        "watermark",
        truth=(Outcome.CORRECT, "no late rows here; with late ones it is wrong: see win_wm_removed_late"),
        twin="win_wm_removed_late",
    ),
    Case(
        "win_wm_removed_late",
        "watermark removed (update), late rows arrive",
        _window(delay="1 minute", mode="update"),
        BARE,
        "watermark",
        data=LATE,
    ),
    Case(
        "win_wm_removed_append",
        "watermark removed (append)",
        APPEND,
        _window(delay=""),
        "watermark",
        providers=("rocksdb",),
    ),
    Case(
        "win_added_update", "watermark added (update), no late data", BARE, UPDATE, "watermark", twin="win_added_late"
    ),
    Case(
        "win_added_late",
        "watermark added (update), late rows arrive after the change",
        BARE,
        _window(delay="1 minute", mode="update"),
        "watermark",
        data=LATE,
        providers=("rocksdb",),
        truth=(
            Outcome.CORRECT,
            "the late row is counted, which a fresh start would drop: nothing lost, nothing doubled",
        ),
    ),
    Case("win_added_update_to_append", "watermark added and mode update -> append", BARE, APPEND, "output-mode"),
    Case(
        "win_wm_column",
        "watermark on another column",
        APPEND,
        APPEND.but(df=APPEND.df.replace('"ts"', '"t2"').replace("s.", f"{_LATER}.", 1)),
        "watermark",
        providers=("rocksdb",),
    ),
    Case(
        "win_wm_stateless",
        "watermark added to a query without state",
        Job('s.select("k", "x", "ts")', mode="append"),
        Job('s.withWatermark("ts", "1 minute").select("k", "x", "ts")', mode="append"),
        "none",
        providers=("-",),
    ),
)

MODES = (
    Case("win_mode_append_to_complete", "windowed agg append -> complete", APPEND, COMPLETE, "output-mode"),
    Case(
        "win_mode_append_to_update",
        "windowed agg append -> update",
        APPEND,
        UPDATE,
        "output-mode",
        truth=(Outcome.LOSES, "a window that was open at the change and gets no new row is never given out"),
    ),
    Case("win_mode_update_to_append", "windowed agg update -> append", UPDATE, APPEND, "output-mode"),
    Case(
        "win_mode_update_to_complete",
        "windowed agg update -> complete",
        UPDATE,
        COMPLETE,
        "output-mode",
        providers=("rocksdb",),
    ),
    Case(
        "win_mode_complete_to_append",
        "windowed agg complete -> append",
        COMPLETE,
        APPEND,
        "output-mode",
        providers=("rocksdb",),
    ),
    Case(
        "win_mode_complete_to_update",
        "windowed agg complete -> update",
        COMPLETE,
        UPDATE,
        "output-mode",
        providers=("rocksdb",),
    ),
    Case(
        "win_mode_evicted_to_complete",
        "update -> complete after windows were evicted",
        _window(delay="1 minute", mode="update"),
        COMPLETE,
        "output-mode",
        providers=("rocksdb",),
    ),
)

CASES = in_group("windows", *SHAPES, *WATERMARKS, *MODES)
