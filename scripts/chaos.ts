// `npm run chaos`: the chaos matrix (test/cluster/chaos/cells.ts), each cell in a process of its own.
//
//   npm run chaos -- --list
//   npm run chaos -- --cell kill-roles --configuration redis --seed 7
//   npm run chaos -- --all                    every cell, and docs/explanation/chaos.md from what came of it
//   npm run chaos -- --ci                     those that CI runs
//
//   --configuration   only with this one (--list shows which there are)
//   --jobs N          cells at once; 2
//   --window SECONDS  how long the load runs; 14
//   --report          puts the results into docs/explanation/chaos.md, as --all does; alone: what is kept
//
// Exits with 1 where a cell failed or could not be run.
import { parseArgs } from 'node:util'
import { cells } from '../test/cluster/chaos/cells.ts'
import { configurations } from '../test/cluster/chaos/configurations.ts'
import { type CellPlace, listPlaces, runPlaces } from '../test/cluster/chaos/matrix.ts'
import { usualWindowMs } from '../test/cluster/chaos/run-cell.ts'
import { savePage, saveReport } from './lib/chaos-page.ts'

const { values } = parseArgs({
  options: {
    list: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    ci: { type: 'boolean', default: false },
    report: { type: 'boolean', default: false },
    cell: { type: 'string', multiple: true },
    configuration: { type: 'string', multiple: true },
    seed: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    window: { type: 'string', default: String(usualWindowMs / 1_000) },
  },
})

function complain(words: string): never {
  process.stderr.write(`${words}\n`)
  process.exit(2)
}

function number(name: 'seed' | 'jobs' | 'window', text: string): number {
  const value = Number(text)
  return Number.isInteger(value) && value >= 0
    ? value
    : complain(`--${name} takes a whole number, not ${text}`)
}

function known(what: string, given: readonly string[] | undefined, all: readonly string[]): void {
  for (const each of given ?? [])
    if (!all.includes(each)) complain(`There is no ${what} ${each}. There are: ${all.join(', ')}.`)
}

function wanted(): readonly CellPlace[] {
  known(
    'cell',
    values.cell,
    cells.map(({ name }) => name),
  )
  known('configuration', values.configuration, configurations)
  return listPlaces().filter(
    ({ cell, configuration }) =>
      (values.cell === undefined || values.cell.includes(cell.name)) &&
      (values.configuration === undefined || values.configuration.includes(configuration)) &&
      (!values.ci || cell.ci.includes(configuration)),
  )
}

const choosesCells =
  values.all || values.ci || values.cell !== undefined || values.configuration !== undefined

if (values.list) {
  for (const { name, title, configurations: its } of cells)
    process.stdout.write(`${name.padEnd(18)} ${its.join(', ').padEnd(36)} ${title}\n`)
} else if (values.report && !choosesCells) {
  savePage()
} else {
  if (!choosesCells)
    complain('Say which: --cell NAME, --configuration NAME, --ci or --all. --list shows them.')
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : number('seed', values.seed)
  const keeps = values.all || values.report
  const failed = await runPlaces(wanted(), {
    seed,
    atOnce: Math.max(1, number('jobs', values.jobs)),
    windowMs: number('window', values.window) * 1_000,
    say: (line) => void process.stdout.write(`${line}\n`),
    done: (result) => {
      if (keeps) saveReport(result)
    },
  })
  process.exitCode = failed === 0 ? 0 : 1
}
