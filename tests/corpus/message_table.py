# SPDX-License-Identifier: MIT
"""Messages that messages.py does not ask a case for: (source, part of its text, why). A row that is out of date is named."""

COMPARED = "what ranks compare, in words: cli/ranks_faults.sh has it differ"
BUILD = "another build of spcore prints it: .ci/run dist builds without each library"
ADVICE = "advice on a whole run, without a value to type; lua/report.lua makes each finding. Its options are looked up here"
HELP = "help, or a page, not a message"
SAYS = "names an option, and proposes nothing"
CSV = "tables.py prints some of these with another cure first"

GPU = "needs a GPU, or several"

# Not messages that say what to type in the command that printed them.
UNREACHED = [
    ("core/cli/main.c", "--help       this text", HELP),
    ("core/cli/cmd_lua.c", "RUN [--torch DIR]", HELP),
    ("core/cli/cmd_schedule.c", "as a graph for Graphviz", HELP),
    ("core/cli/cmd_inspect.c", "--meta prints all stages", "says what an option is for, and of which another is to be left out"),
    ("core/cli/inspect_meta.c", "do not edit", HELP),
    ("core/check/conformance.c", "create() with the parameters of --set", "a line of spcore check: the name of a check"),
    ("scripts/spcore/args.lua", "and --ranks N and --comm-timeout S", HELP),
    ("scripts/spcore/plot.lua", "var(--line", HELP),
    ("scripts/spcore/report/compare.lua", "var(--line", HELP),
    ("scripts/spcore/report/page.lua", "var(--line", HELP),
    ("scripts/spcore/export/torch.lua", "", "what export writes, not what it says"),
    ("scripts/spcore/report/findings.lua", "", ADVICE),
    ("core/graph/optimizer.c", " (--", COMPARED),
    ("core/run/engine.c", " (", COMPARED),
    ("scripts/spcore/graph.lua", "the steps between comparisons", COMPARED),
    ("scripts/spcore/graph.lua", "whether there is a trace", COMPARED),
    ("scripts/spcore/identity.lua", "(--", COMPARED),
    ("plugins/kits/image/*.c", "install that (Debian", BUILD),
    ("plugins/kits/tar/walk.c", "install that (Debian", BUILD),
    ("plugins/kits/fetch/library.c", "install it (Debian", BUILD),
    ("scripts/spcore/network.lua", "is not written, so `spcore export` has nothing to read:", "a stage of others, whose parameters are no JSON"),
    ("plugins/kits/fetch/transfer.c", "name a folder with more room", "needs a disk with more room"),
    ("plugins/devices/cuda/lib.c", "", GPU),
    ("core/params/comm.c", "leave --comm out", GPU),
    ("core/plan/border.c", "take --device cpu", GPU),
    ("core/plan/program.c", "--capture auto or off", GPU),
    ("core/schedule/prove.c", "--capture lane", GPU),
    ("core/params/store.c", "take a smaller --batch or --depth", "memory that is not there: lua/no_memory.lua"),
    ("core/plan/memory.c", "--memory-limit allows", "part of a sentence without a cure: the limit that was given"),
    ("scripts/spcore/export/onnx.lua", "an ONNX file with its weights within has 2.1 GB", "weights of 2.1 GB"),
    ("core/host/trace.c", "of other steps nothing is kept", "a note below a table of times, which a run of 100 steps has"),
    ("core/run/timeline.c", "they are taken for a file alone", "a note below a table of times"),
    ("core/cli/cmd_inspect.c", "more than %d times --plugin", SAYS),
    ("core/cli/cmd_inspect.c", "no stage is for --device", SAYS),
    ("scripts/spcore/run.lua", "--on-usr save: this run saves no checkpoints", SAYS),
    ("scripts/spcore/auto.lua", "so nothing was tried", SAYS),
    ("scripts/spcore/bench.lua", "the runs of both overlap", "of times, which no case can know: lua/bench.lua has made-up ones"),
    ("scripts/spcore/checkpoint.lua", "a checkpoint is saved each %d steps", SAYS),
    ("scripts/spcore/predict.lua", "was one that keeps none", SAYS),
    ("scripts/show_augment.lua", "the first three channels are shown", SAYS),
    ("scripts/spcore/numbers.lua", "each channel is taken less its mean", SAYS),
    ("scripts/spcore/commands/data.lua", "where it is given no others", "names options of the training scripts"),
    ("scripts/spcore/summary.lua", "--class-weights balanced", "whether it helps hangs on the data; never_found of cures.py has it printed"),
    ("scripts/spcore/from.lua", "--width %d --levels %d", "part of a line, which all_weights of messages.py types"),
    ("scripts/train_seg.lua", "--channels 1", "the option that the message is about"),
    ("scripts/train_seg.lua", "--dtype and --channels", "the options that the message is about"),
    ("scripts/spcore/optimizers.lua", "with --backbone", SAYS),
    ("scripts/spcore/backbone.lua", "which is beside", SAYS),
    ("scripts/spcore/args.lua", "(--help lists all)", "kit.py lets no case name an option that is none; cli/commands.sh has these"),
    ("scripts/spcore/commands/inspect.lua", "up to 16384 each", SAYS),
    ("scripts/show_augment.lua", "are black and white (--range)", SAYS),
    ("scripts/tools/importers/common.py", "Ids of masks become classes", HELP),
    ("scripts/tools/importers/folders.py", "images/ and masks/ of any depth", HELP),
    ("scripts/tools/spconvert/*.py", "", "parity/convert.py has the converter's refusals, beside PyTorch"),
    ("scripts/tools/spcore_convert.py", "", "parity/convert.py has the converter's refusals, beside PyTorch"),
    ("scripts/spcore/predict.lua", "give it from where it is now", "a plugin that has gone: where it is now only its user knows"),
    ("core/run/trial.c", "", "spcore.auto says it first"),
]
