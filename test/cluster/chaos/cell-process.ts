// The process of one cell: `node scripts/run.mjs test/cluster/chaos/cell-process.ts '<CellRequest>'`. Its
// last line of output is the result. Asked to stop, or fallen over, it takes down what it had started.
import { cleanUpList } from '../support/arena.ts'
import { cells } from './cells.ts'
import type { CellRequest } from './matrix.ts'
import { runCell } from './run-cell.ts'

const request = JSON.parse(process.argv[2] ?? '{}') as CellRequest
const cell = cells.find(({ name }) => name === request.cell)
if (cell === undefined) throw new Error(`there is no cell ${request.cell}`)
const list = cleanUpList()
const giveUp = (why: unknown): void => {
  process.stderr.write(`${why instanceof Error ? why.stack : String(why)}\n`)
  void list.clear().finally(() => process.exit(1))
}
for (const reason of ['SIGTERM', 'SIGINT', 'uncaughtException', 'unhandledRejection'])
  process.once(reason, giveUp)
const result = await runCell({ ...request, cell }, list)
process.stdout.write(`\n${JSON.stringify(result)}\n`, () => process.exit(0))
