-- SPDX-License-Identifier: MIT
-- How the pages of `spcore report` look: one sheet of rules, for light pages and dark ones, from 400 pixels on.
local look = require "spcore.look"

return look.variables() .. [[
:root { color-scheme: light dark; --shade: color-mix(in srgb, var(--dim) 55%, transparent); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 32px 0 10px; }
h3 { font-size: 15px; margin: 18px 0 8px; }
p { margin: 6px 0; } .dim { color: var(--dim); } code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
.word { white-space: nowrap; }
.state { display: inline-block; border: 1px solid var(--rule); border-radius: 10px; padding: 0 9px; font-size: 13px; }
dl.about { display: grid; grid-template-columns: max-content 1fr; gap: 3px 14px; margin: 10px 0 0; font-size: 14px; }
dl.about dt { color: var(--dim); } dl.about dd { margin: 0; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; margin-top: 16px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 12px; }
.tile b { display: block; font-size: 19px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile span { color: var(--dim); font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 8px 4px; }
figcaption { font-size: 13px; padding: 0 4px 4px; } figcaption i { font-style: normal; color: var(--dim); margin-left: 10px; }
figcaption i { display: inline-block; }
.key { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin: 0 5px 3px 0; vertical-align: middle; }
svg.plot { display: block; width: 100%; height: auto; } .mark { fill: var(--dim); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--rule); stroke-width: 1; } .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.band { opacity: .2; }
.scroll { overflow-x: auto; background: linear-gradient(90deg, var(--page) 50%, transparent) 0 0 / 36px 100% no-repeat local,
  linear-gradient(270deg, var(--page) 50%, transparent) 100% 0 / 36px 100% no-repeat local,
  linear-gradient(90deg, var(--shade), transparent) 0 0 / 12px 100% no-repeat,
  linear-gradient(270deg, var(--shade), transparent) 100% 0 / 12px 100% no-repeat; }
.scroll tr > :first-child { position: sticky; left: 0; background: var(--page); }
table { border-collapse: collapse; font-size: 14px; } td, th { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; }
tr + tr > * { border-top: 1px solid var(--rule); } th { color: var(--dim); font-weight: 500; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } td.wrap { overflow-wrap: anywhere; }
.bars td:first-child { white-space: nowrap; } .bars td.bars-at { width: 100%; min-width: 90px; }
.bar { background: var(--line0); height: 10px; border-radius: 3px; margin-top: 6px; }
.matrix td { text-align: center; padding: 4px 7px; border: 1px solid var(--rule); font-variant-numeric: tabular-nums; }
.matrix th { padding: 4px 7px; max-width: 150px; } .matrix.many th { white-space: nowrap; max-width: none; }
.matrix.many tr > :first-child { white-space: normal; max-width: 170px; min-width: 90px; }
.matrix:not(.many) th + th { text-align: center; }
.matrix.many thead th + th { writing-mode: vertical-rl; transform: rotate(180deg); padding: 7px 4px; }
.versus td, .versus th { white-space: nowrap; } .versus td.wrap { white-space: normal; min-width: 130px; } .versus th.in { padding-left: 12px; }
.best { font-weight: 700; }
ul.findings { list-style: none; padding: 0; margin: 0; } ul.findings code { user-select: all; }
ul.findings li { border-left: 4px solid var(--line1); background: var(--card); padding: 7px 12px; margin: 8px 0; border-radius: 0 6px 6px 0; }
ul.findings li.bad { border-color: var(--bad); }
.options { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 2px 16px; font-size: 14px; }
.options div { overflow-wrap: anywhere; }
.legend i { font-style: normal; margin-right: 14px; display: inline-block; }
.legend s { display: inline-block; width: 12px; height: 12px; border: 1px solid var(--rule); margin-right: 5px; }
.legend s.over { background: #808080; } .legend s b { display: block; width: 100%; height: 100%; opacity: .6; }
.legend .ramp { display: inline-block; width: 90px; height: 11px; border: 1px solid var(--rule); vertical-align: -1px;
  background: linear-gradient(90deg, #440154, #472d7b, #3b528b, #2c728e, #21918c, #28ae80, #5ec962, #addc30, #fde725); }
.legend .no-value { background: repeating-conic-gradient(#969696 0 25%, #bebebe 0 50%) 0 0 / 6px 6px; }
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(350px, 100%), 1fr)); gap: 14px; }
.samples.single { grid-template-columns: repeat(auto-fill, minmax(min(165px, 100%), 1fr)); }
.samples figcaption { overflow-wrap: break-word; } .samples .file { overflow-wrap: anywhere; color: var(--dim); }
.shots { display: grid; grid-template-columns: repeat(auto-fit, minmax(80px, 1fr)); gap: 8px; }
.shots span { display: block; margin-top: 3px; font-size: 12px; line-height: 1.3; color: var(--dim); }
.shot { background: var(--p) 0 0 / 100% 100%; border-radius: 3px; overflow: hidden; }
.shot img { display: block; width: 100%; height: 100%; opacity: .6; } .sharp { image-rendering: pixelated; }
.wrong { color: var(--bad); } details { margin-top: 8px; } summary { cursor: pointer; color: var(--dim); }
.scroll > svg { max-width: max(100%, 640px); height: auto; }
@media (max-width: 600px) {
  .versus td.wrap { min-width: 100px; }
  td, th { padding-right: 8px; } .bars td:first-child { white-space: normal; min-width: 110px; }
  .bars td.bars-at { min-width: 40px; } .bars th.n { white-space: normal; }
  .matrix td, .matrix th { padding: 3px 4px; font-size: 12px; }
  dl.about { grid-template-columns: 1fr; } dl.about dd { margin-bottom: 5px; }
}
]]
