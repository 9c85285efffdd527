---@meta spcore
-- SPDX-License-Identifier: MIT
-- The API of `require "spcore"`, for editors that know LuaLS annotations. What the build makes of tables is beside it: options and
-- lanes in options.lua, stages in stages.lua.

---@class spcore
---@field version string
---@field script_dir string where the shipped scripts lie
---@field rank integer which process of a job this is, from 0
---@field ranks integer how many there are
local sp = {}

---The parameters that all scripts have; others come with the script's own options.
---@class spcore.options
---@field timing? boolean keep the times of stages, for g:timings()
---@field rest? string[]
---@field [string] any

---@class spcore.option
---@field [1] boolean|number|string the default, which also says the type
---@field [2]? string what it is
---@field min? number
---@field max? number
---@field choices? string[]
---@field default? string what help says in place of the default value
---@field value? string what help calls the value: "FILE", "DIR"
---@field instead_of? string the option in whose place it stands
---@field sides? boolean of whole numbers with min and max: HEIGHTxWIDTH is taken, too, and gives { height, width }
---@field sets? string the parameter of a stage that it gives, as STAGE.NAME

---@class spcore.args
---@field rest? string what help calls arguments that are no options: "IMAGE..."
---@field doc? string what the script does
---@field without? string[] options, and words for what it does not do
---@field only? string[] the common options that it takes
---@field others? boolean with rest: options that are not its own are in opt.rest
---@field checkpoints? boolean its runs are saved and resumed
---@field moved? table<string, string> options that another script took over: its name

---Reads the script's command line. Wrong use ends the program with exit code 2.
---@param spec table<string, spcore.option>
---@param how? spcore.args
---@return spcore.options
function sp.args(spec, how) end

---Ends the program with exit code 2 and this line.
---@param fmt string
function sp.usage(fmt, ...) end

---Ends the script.
---@param code? integer
function sp.exit(code) end

---Raises an error with the line of the user's script.
---@param message string
function sp.fail(message) end

---@param opt? spcore.options
---@return spcore.graph
function sp.graph(opt) end

---Top-1 and top-k accuracy from the counts of stage 'accuracy'; nan where no label counted.
---@param metrics spcore.metrics of a step or an evaluation
---@param stage? string the stage's name, where several stages have such metrics
---@return number top1
---@return number topk
function sp.accuracy(metrics, stage) end

---Mean intersection over union, and the value per class (false: in neither truth nor prediction).
---@param counts integer[][] counts[truth][predicted]
---@param options? { ignore?: integer[] }
---@return number mean
---@return (number|false)[] per_class
function sp.mean_iou(counts, options) end

---Figures from what stages count.
sp.figures = {}

---@class spcore.rates
---@field precision number
---@field recall number of a class: its accuracy
---@field f1 number of a class: its Dice coefficient
---@field iou number

---@class spcore.class_rates: spcore.rates
---@field support integer how many are of the class
---@field taken integer how many are predicted so
---@field there boolean one of both is not 0

---@param counts integer[][] counts[truth][predicted], of stage 'confusion'
---@return { accuracy: number, macro: spcore.rates, weighted: spcore.rates, micro: spcore.rates, classes: spcore.class_rates[] }
function sp.figures.confusion(counts) end

---@param scores integer[][][] of stage 'score_histogram'
---@return { auroc: number, map: number, macro: spcore.rates, weighted: spcore.rates, micro: spcore.rates, classes: table[] }
function sp.figures.scores(scores) end

---@param reliability integer[][] of stage 'calibration'
---@return { ece: number, mce: number, bins: { samples: integer, accuracy?: number, confidence?: number }[] }
function sp.figures.calibration(reliability) end

---@param deviations integer[][][] of stage 'deviation'
---@return { mae: number, rmse: number, bias: number, r2: number, not_finite: integer, columns: table[] }
function sp.figures.deviation(deviations) end

---@param depths integer[][][] of stage 'depth_error'
---@return { abs_rel: number, sq_rel: number, rmse_log: number, silog: number, delta1: number, delta2: number, delta3: number,
---  n: integer, not_finite: integer, low_targets: integer, low_inputs: integer }
function sp.figures.depth_error(depths) end

---@param boundaries integer[][] of stage 'boundary'
---@return { f1: number, classes: { precision: number, recall: number, f1: number, there: boolean }[] }
function sp.figures.boundary(boundaries) end

sp.models = {}

---@type string[] what sp.models.get knows
sp.models.names = {}

---What images are made into for a set of weights.
---@class spcore.preprocess
---@field size integer the shorter side is scaled to it
---@field crop integer side of the square in its middle
---@field mean number[] of images from 0 to 1
---@field std number[]
---@field interpolation "bilinear"|"bicubic"

---Layers, and what they say of themselves; a stage takes the layers alone.
---@class spcore.model
---@field [integer] spcore.layers.layers
---@field family string "resnet", "mobilenet_v3", "efficientnet"
---@field title string "ResNet-50"
---@field variant string whose weights it is for
---@field preprocess spcore.preprocess what they want
---@field variants table<string, spcore.preprocess> of all that are known
---@field head string[] patterns of the names that the weights of the known head have in files
---@field names table<string, table<string, string>> by dialect: prefix of our names to theirs; a dialect that has the same is not there
---@field taps { name: string, channels: integer, stride: integer }[] the maps of an encoder

---torchvision's ResNet as `layers` of encoder or, with `classes`, classifier.
---@param t { [1]: 18|34|50|101, output_stride?: 32|16|8, dilation?: "torchvision"|"smp", variant?: string, classes?: integer }
---@return spcore.model
function sp.models.resnet(t) end

---torchvision's MobileNetV3; `dilated`: C4 has dilations in the place of its stride.
---@param t { [1]: "large"|"small", dilated?: boolean, output_stride?: 32|16, width?: number, variant?: string, classes?: integer }
---@return spcore.model
function sp.models.mobilenet_v3(t) end

---torchvision's EfficientNet.
---@param t { [1]: "b0"|"b1"|"b2"|"b3"|"b4", variant?: string, classes?: integer }
---@return spcore.model
function sp.models.efficientnet(t) end

---A converted network: the list of layers in a file that spcore_convert.py has written.
---@param path string
---@return table
function sp.models.file(path) end

---A known network by name: sp.models.get("resnet50", { output_stride = 8 }).
---@param name string one of sp.models.names
---@param options? table the family's
---@return spcore.model
function sp.models.get(name, options) end

---The network, or any list of layers, with the mean over its last map behind it.
---@generic T
---@param list T
---@return T
function sp.models.pooled(list) end

---A linear layer behind the mean over the map, as `layers` of classifier; pooled: of features that are that mean already.
---@param t { classes: integer, pooled?: boolean }
---@return spcore.layers.layers[]
function sp.models.probe(t) end

---torchvision's FCNHead and the enlargement to the image, as `layers` of decoder.
---@param t { classes: integer, size: integer|integer[], channels?: integer, dropout?: number }
---@return spcore.layers.layers[]
function sp.models.fcn(t) end

---torchvision's DeepLabHead and the enlargement to the image, as `layers` of decoder.
---@param t { classes: integer, size: integer|integer[], rates?: integer[], dropout?: number }
---@return spcore.layers.layers[]
function sp.models.deeplabv3(t) end

---segmentation_models.pytorch's U-Net decoder and head, as `layers` of decoder whose skips are the maps but the last.
---@param t { classes: integer, decoder?: integer[], size?: integer|integer[] }
---@return spcore.layers.layers[]
function sp.models.unet(t) end

---segmentation_models.pytorch's FPN decoder and head, as `layers` of decoder whose skips are the maps but the last.
---@param t { classes: integer, pyramid?: integer, width?: integer, merge?: "add"|"cat", dropout?: number, size?: integer|integer[] }
---@return spcore.layers.layers[]
function sp.models.fpn(t) end

---A learning rate: up in a line, then down along a cosine.
---@param t { lr: number, steps: integer, warm_up?: integer, last?: number }
---@return fun(step: integer): number
function sp.cosine(t) end

---A learning rate: multiplied by a factor each so many steps, as PyTorch's StepLR.
---@param t { lr: number, every: integer, factor?: number }
---@return fun(step: integer): number
function sp.step_rate(t) end

---A learning rate: up and down along cosines, as PyTorch's OneCycleLR.
---@param t { lr: number, steps: integer, rise?: number, first?: number, last?: number }
---@return fun(step: integer): number
function sp.one_cycle(t) end

---Prints a step's numbers on one line.
---@param step integer
---@param m spcore.metrics
function sp.log(step, m) end

---Prints a line, above the progress bar; nothing with --quiet.
---@param fmt string
function sp.print(fmt, ...) end

---@param options { total?: integer, every?: integer, unit?: string }
---@return spcore.progress
function sp.progress(options) end

---Image files that paths name, those in folders, and those of lists ("@FILE", a path on each line); how many there are, nil
---where there is a list.
---@param paths string[]
---@param options? { names?: boolean } names = false: without names
---@return fun(): { path: string, name?: string }?
---@return integer? total
function sp.pictures(paths, options) end

---A line on the error output, as warnings are.
---@param words string
function sp.warn(words) end

---The path of a file that is shipped beside the scripts.
---@param name string
---@return string
function sp.shipped(name) end

---Seconds of a clock that only goes forward.
---@return number
function sp.now() end

---The number of the signal that asked the run to stop: SIGINT, SIGTERM, SIGHUP; SIGUSR1 and SIGUSR2 unless --on-usr save.
---@return integer?
function sp.interrupted() end

---@param path string
---@param text string
function sp.write_file(path, text) end

---@class spcore.json
sp.json = {}
---@param value any
---@param indent? boolean
---@return string
function sp.json.encode(value, indent) end
---Marks a table as a list, which is then [] where it is empty.
---@param t table
---@return table t
function sp.json.list(t) end
---@param text string
---@return any value
---@return string? message
function sp.json.decode(text) end
---@param path string
---@return any value
---@return string? message
function sp.json.read(path) end

---@class spcore.progress
local progress = {}
---@param words? string[]|fun(): string[]
function progress:step(words) end
function progress:close() end

---@class spcore.run_options
---@field graph spcore.graph
---@field opt? spcore.options
---@field steps? integer
---@field epochs? integer how many the steps are
---@field classes? string|string[] their names, a list or a line each
---@field name? string instead of the script's
---@field settings? table added to settings.json
---@field every? integer steps between plain lines
---@field weights? boolean false: not saved at the end
---@field samples? fun(g: spcore.graph, weights: string): table puts the network into a graph, for samples of the validation

---The folder of a run: settings.json, metrics.jsonl, weights.safetensors, summary.json; checkpoints where sp.args was told of them.
---@param t spcore.run_options
---@return spcore.run
function sp.run(t) end

---@class spcore.run
---@field dir string
---@field settings table
local run = {}
---@param step integer
---@param m spcore.metrics
function run:step(step, m) end
---Saves the weights as they are now, as often as it is called; finish saves once more, unless weights = false.
function run:save() end
---The picture in a PNG or JPEG file, for TensorBoard.
---@param step integer
---@param name string
---@param path string
function run:image(step, name, path) end
---How many of the run's steps are still to be done; nil without a number of them.
---@return integer?
function run:rest() end
---Like g:evaluate behind the loop; the result goes to summary.json. nil where the run ends before its last step.
---@param source spcore.node
---@return table?
function run:evaluate(source) end
---"validation mean IoU 0.8123" of what run:evaluate gave; nil of nil.
---@param eval? table
---@return string?
function run:verdict(eval) end
---Saves, and prints the last line.
---@param text? string
function run:finish(text) end

---What a step gives; the metrics of stages are in it by the names of their ports.
---@class spcore.metrics
---@field step integer
---@field epoch integer
---@field n integer samples in the step
---@field updated boolean the optimizer ran
---@field time number when it was seen complete, as sp.now()
---@field lr? number
---@field slowest_rank? integer of several ranks, as the next two; on GPUs from step 17 on
---@field slowest_ms? number by which it was behind
---@field comm_share? number of the time, that ranks waited for others, the mean of all; on GPUs, that lane comm was at work
---@field eval? table what g:evaluate{ every = k } found; of several sources the one that was named first
---@field evals? table<string, table> of several sources what each found, by its name
---@field [string] any

---A stage, with forward and backward, or a stage and the names of its parts that the lane has.
---@alias spcore.part "forward"|"backward"|"copy"
---@alias spcore.item spcore.node|{ [1]: spcore.node, [integer]: spcore.part }

---@class spcore.lane
---@field name? string default "lane1", "lane2" ...
---@field stages spcore.item[] empty: the lane is dropped

---@class spcore.memory
---@field weights integer
---@field gradients integer
---@field optimizer integer
---@field activations integer
---@field saved integer
---@field scratch integer
---@field cache integer what frozen stages gave, kept
---@field total integer
---@field host integer bytes of caches in the host's memory, where the device has its own; in none of the others

---Of the training.
---@class spcore.schedule
---@field strategy string
---@field lanes integer
---@field tasks integer
---@field waits integer
---@field derived integer waits before those implied by others were left out
---@field operations integer of a tick, as they are executed
---@field delay integer the longest in ticks, the host's among them

---@class spcore.graph
---@field depth integer
local graph = {}

---The device that it runs on: "cpu", "cuda", "cuda:1".
---@return string
function graph:device() end
---Adds a stage by name.
---@param name string
---@param t? table
---@return spcore.node
function graph:stage(name, t) end
---Wires an input after the stage was added.
---@param node spcore.node
---@param port string
---@param value spcore.node|spcore.ref|spcore.ref[]
function graph:wire(node, port, value) end
---@return spcore.node[]
function graph:nodes() end
---@param name string
---@return spcore.node?
---@return string? message
function graph:find(name) end
---All stages but the sources.
---@return spcore.node[]
function graph:stages() end
---Stages that training does not change, sources aside.
---@return spcore.node[]
function graph:frozen() end
---The others.
---@return spcore.node[]
function graph:trained() end
---@param fmt string
function graph:notice(fmt, ...) end
---@class spcore.training: { [integer]: spcore.node|spcore.ref }
---@field optimizer spcore.node
---@field lr? fun(step: integer): number
---@field accumulate? integer
---@field optimizer_shards? boolean

---@param t spcore.training
function graph:train(t) end
---@param what string|spcore.lane[]|fun(g: spcore.graph): spcore.lane[]
---@param name? string
function graph:strategy(what, name) end
---for step, m in g:steps(n) do ... end
---@param n? integer nil: without end
---@return fun(): integer, spcore.metrics
function graph:steps(n) end
---Means and sums over all of a source; with `every` it is run by g:steps.
---@param t { data: spcore.node, every?: integer }
---@return table?
---@return string? message "interrupted"
function graph:evaluate(t) end
---Steps, and the answers to requests, have these outputs too: tables of numbers, or with raw = true strings of the elements.
---@param t { [integer]: spcore.node|spcore.ref, raw?: boolean }
function graph:results(t) end
---What a graph is asked: a string of bytes for each tensor of stage 'requests', or a file's bytes or path for 'image_requests'.
---@class spcore.request
---@field [integer] string
---@field path? string
---@field name? string of the files that image_writer writes
---@field deadline? number seconds; a request that has no result by then is answered as late
---@field tag? any for the script
---@class spcore.answer
---@field status "ok"|"failed"|"late"|"cancelled"|"refused"
---@field error? string
---@field request spcore.request as it was submitted
---@field step? integer
---@field waited number seconds until a step took it
---@field took number seconds until it was answered
---@field [string] any results by the names of their ports
---@param t spcore.request
---@return integer? ticket
---@return string? why
---@return "full"|"refused"? word
function graph:submit(t) end
---@param ticket integer
---@return boolean?
---@return string? why
function graph:cancel(ticket) end
---for answer in g:answers(producer) do ... end, in the order of submission
---@param producer? fun(): spcore.request?
---@return fun(): spcore.answer?
function graph:answers(producer) end
---@class spcore.times
---@field mean? number
---@field max? number
---@field p50? number
---@field p90? number
---@field p99? number
---@field p999? number

---@class spcore.request_stats
---@field accepted integer
---@field refused integer
---@field done integer
---@field failed integer
---@field cancelled integer
---@field late integer
---@field open integer
---@field steps integer
---@field bytes integer
---@field waited spcore.times
---@field took spcore.times
---@field histogram number[][]

---Counts of requests, times in seconds of those that are done, and the histogram { from, to, count } of `took`.
---@param options? { clear?: boolean } counted anew from here on
---@return spcore.request_stats
function graph:request_stats(options) end
---@return integer
function graph:step() end
---how many steps are in the weights that g:evaluate{ data = }, s:weight() and g:save() see now
---@return integer
function graph:steps_in_weights() end
---@param step integer
function graph:seek(step) end
---@return integer
function graph:epoch_steps() end
---@return integer
function graph:allocations() end
---The new file for the checksums of a graph made with them, a line a step; sp.run calls it.
---@param path string
function graph:checksums(path) end
---Bytes of the training and its evaluations.
---@return spcore.memory
function graph:memory() end
---@return spcore.schedule
function graph:schedule() end
---What --explain prints.
---@return string
function graph:describe() end
---@return string?
function graph:timings() end
---The strategy's lanes; parts of a stage as "decoder.forward".
---@return { name: string, delay: integer, priority: "high"|"normal"|"low", extra: integer, replicas: integer, stages: string[] }[]
function graph:lanes() end
---@param path string
---@param options? { optimizer?: boolean, averages?: boolean } with its moments; its averages in the place of the weights
function graph:save(path, options) end
---@param from string|spcore.weights a file or the folder of a run
function graph:load(from) end
function graph:close() end

---@class spcore.node
---@field name string
---@field stage string the stage's type
---@field frozen boolean
---@field cache "off"|"device"|"host"
---@field precision "fp32"|"tf32"|"bf16" of its products
---@field source boolean
---@field length? integer samples of a source
---@field optimizer boolean
---@field loss boolean
---@field live table<string, number> its parameters that set() takes, as they are
---@field eval_only boolean no step of a training runs it
---@field on_cpu boolean its outputs lie on the processor's side, in a graph of another device
local node = {}
---The stages whose outputs it reads, each once.
---@return spcore.node[]
function node:producers() end
---The i-th text, from 0, of an attribute that is a list, such as the reader's `files`.
---@param attribute string
---@param i integer
---@return string
function node:item(attribute, i) end
---Sets a parameter that may change while running; of a stage that is not trained, before the graph is planned.
---@param name string
---@param value number
function node:set(name, value) end
---@param name string
---@return number
function node:get(name) end
---@return { name: string, shape: integer[], trained: boolean }[]
function node:weights() end
---Values in row-major order, and `shape`.
---@param name string
---@return table
function node:weight(name) end
---@return { name: string, list: boolean, optional: boolean, dtypes?: table<string, boolean> }[]
function node:inputs() end
---@return { name: string }[]
function node:outputs() end

---The attributes of reader; its outputs are in stages.lua.
---@class spcore.reader: spcore.node
---@field classes integer
---@field class_names string one a line; "" where they have none
---@field layout string
---@field splits string "train 448 val 64"
---@field counts string samples of this split for each class, blanks between
---@field left_out string
---@field files integer how many; data:item("files", i) is one
---@field digest integer 2; data:item("digest", 0) is a hash of names, sizes and labels, item 1 one of times

---@class spcore.ref
---@field shape integer[]
---@field dtype string
---@field name string
---@field list boolean
---@field item? integer which one of a list
---@field stage spcore.node
---@field [integer] spcore.ref

---A device that a script uses itself, other than the command line's; see docs/by_hand.md.
---@class spcore.hand
---@field stream fun(t?: spcore.stream_options): spcore.stream
---@field event fun(t?: { timing?: boolean }): spcore.event
---@field tensor fun(t: spcore.tensor_options): spcore.tensor
---@field stage table<string, fun(t?: table): spcore.hstage>
---@field close fun()
---@field device fun(): string

---@class spcore.stream_options
---@field name? string
---@field priority? "high"|"normal"|"low"

---@class spcore.tensor_options
---@field [1]? "u8"|"i8"|"i32"|"i64"|"f16"|"bf16"|"f32"|"f64"
---@field [integer] integer|string the extents behind it
---@field at? "device"|"pinned"|"pageable"
---@field name? string
---@field like? spcore.tensor in the place of type and extents

---@class spcore.hand_options
---@field device? string
---@field precision? string
---@field seed? integer
---@field order? integer of streams, on sim and simmock
---@field init? "philox"|"torch"
---@field check_races? boolean

---@param opt? spcore.hand_options|spcore.options
---@return spcore.hand
function sp.hand(opt) end
---@param t? spcore.stream_options
---@return spcore.stream
function sp.stream(t) end
---@param t? { timing?: boolean }
---@return spcore.event
function sp.event(t) end
---@param t spcore.tensor_options
---@return spcore.tensor
function sp.tensor(t) end
---sp.stage.NAME{ ... }: a stage outside of any graph
---@type table<string, fun(t?: table): spcore.hstage>
sp.stage = {}

---@class spcore.stream
local stream = {}
---@return string
function stream:name() end
---@param e spcore.event
---@return spcore.event
function stream:record(e) end
---@param e spcore.event
function stream:wait(e) end
function stream:sync() end
---@param dst spcore.tensor
---@param src spcore.tensor
function stream:copy(dst, src) end
---@param stage spcore.hstage
---@param inputs? spcore.tensor|table
---@param outputs? spcore.tensor|table nil: the stage's own
---@param how? { step?: integer, ids?: integer[], evaluate?: boolean }
---@return table<string, spcore.tensor|spcore.tensor[]>
function stream:run(stage, inputs, outputs, how) end
---@param stage spcore.hstage
---@param how? { inputs?: boolean, accumulate?: boolean, last?: boolean }
function stream:backward(stage, how) end
---@param optimizer spcore.hstage
---@param stages spcore.hstage|spcore.hstage[]
function stream:update(optimizer, stages) end
function stream:close() end

---@class spcore.event
local event = {}
function event:sync() end
---@return boolean complete
function event:query() end
---@param to spcore.event
---@return number milliseconds
function event:elapsed(to) end
function event:close() end

---@class spcore.tensor
local tensor = {}
---@return number|table
function tensor:read() end
---@param values number|table
function tensor:write(values) end
---@param value number
function tensor:fill(value) end
---@param how? { seed?: integer, low?: number, high?: number }
function tensor:random(how) end
---@param first integer from 1
---@param n? integer
---@return spcore.tensor
function tensor:rows(first, n) end
---@return spcore.tensor
function tensor:grad() end
---@return integer[]
function tensor:shape() end
---@return string
function tensor:dtype() end
---@return string
function tensor:name() end
---@return "device"|"pinned"|"pageable"
function tensor:at() end
function tensor:close() end

---@class spcore.hstage
local hstage = {}
---@return string
function hstage:name() end
---@param inputs spcore.tensor|table
---@param optional? string[] names of optional outputs
---@return table<string, spcore.tensor|spcore.tensor[]>
function hstage:outputs(inputs, optional) end
---@param name string
---@param value number
function hstage:set(name, value) end
---@param name string
---@return number
function hstage:get(name) end
---@return { name: string, shape: integer[] }[]
function hstage:weights() end
---@param name string
---@return table
function hstage:weight(name) end
---@return string
function hstage:checksum() end

return sp
