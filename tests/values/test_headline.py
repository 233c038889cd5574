import pytest

from tune_media.values.headline import headline

TRACEBACK = """\
Failure # 1 (occurred at 2026-01-01_10-00-00)
\x1b[36mray::ImplicitFunc.train()\x1b[39m (pid=8547, ip=10.0.0.2, actor_id=0993a8, repr=train)
           ^^^^^^^^^^^^^^^^^^^^
  File "/ray/tune/trainable/function_trainable.py", line 249, in _trainable_func
    output = fn()
  File "/home/me/train.py", line 8, in train
    raise error
             ^^^^
"""
GROUP = """\
Failure # 1 (occurred at 2026-01-01_10-00-00)
+ Exception Group Traceback (most recent call last):
  |   File "/home/me/train.py", line 13, in train
  |     raise ExceptionGroup("many went wrong", errors)
  | ExceptionGroup: many went wrong (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/me/train.py", line 18, in check
    |     raise KeyError("z")
    | KeyError: 'z'
    +---------------- 2 ----------------
    | TypeError: two
    +------------------------------------
"""
DIED = "The actor died unexpectedly.\n\tclass_name: ImplicitFunc\nThe actor is dead because its process has died.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # as Ray writes them
        (TRACEBACK + "RuntimeError: CUDA error\nFor debugging ...\nCompile with DSA.\n", "RuntimeError: CUDA error"),
        (TRACEBACK + "ValueError: bad lr\na note\n", "ValueError: bad lr"),
        (TRACEBACK + "ValueError: bad lr\n\n  lr=3\n", "ValueError: bad lr"),
        (
            TRACEBACK + "RuntimeError: \n        An attempt was made\n    to fork.\n",
            "RuntimeError: An attempt was made",
        ),
        (TRACEBACK + '  File "x.py", line 1\n    x = = 3\n        ^\nSyntaxError: invalid\n', "SyntaxError: invalid"),
        (TRACEBACK + 'ValueError: see File "x.py", line 3\nfor it\n', 'ValueError: see File "x.py", line 3'),
        (
            TRACEBACK + 'RuntimeError: Caught in DataLoader\n  File "b.py", line 3, in f\n    g()\nValueError: inner\n',
            "ValueError: inner",
        ),
        (GROUP, "ExceptionGroup: many went wrong (2 sub-exceptions)"),
        (GROUP + f"\nThe above exception was the direct cause:\n\n{TRACEBACK}OSError: end\nmore\n", "OSError: end"),
        (GROUP.replace('  |   File "', "  |     "), "ExceptionGroup: many went wrong (2 sub-exceptions)"),
        (DIED, "The actor is dead because its process has died."),
        (f"{TRACEBACK}ValueError: first\n{DIED.join(('Failure # 2 (x)' + chr(10), ''))}", DIED.split("\n")[2]),
        ("Failure # 1\nTraceback ...\n\x1b[1;31mValueError\x1b[0m: no\x1b[K\n\n", "ValueError: no"),
        ("", ""),
    ],
)
def test_the_headline_of_an_error_is_the_first_line_of_its_message(text, expected):
    assert headline(text) == expected
