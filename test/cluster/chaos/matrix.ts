/**
 * Runs cells of the matrix, a few at once, each in a process of its own (cell-process.ts), so that one that
 * hangs or falls over takes nothing else with it. A cell whose services are missing is left out with the
 * reason, or counts as failed where CI=true.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { serviceNamed, type ServiceName } from '../../support/services.ts'
import { cleanUpList } from '../support/arena.ts'
import { type Cell, cells } from './cells.ts'
import { type Configuration, servicesOf } from './configurations.ts'
import type { GroundKind } from './grounds.ts'
import type { CellResult } from './run-cell.ts'
import { makeTemplate } from './world.ts'

export interface CellPlace {
  readonly cell: Cell
  readonly configuration: Configuration
}

/** What the process of a cell is told. */
export interface CellRequest {
  readonly cell: string
  readonly configuration: Configuration
  readonly seed: number
  readonly windowMs: number
  readonly template: string
}

export interface MatrixOptions {
  /** Of the first cell; each has its own, by its place in the list. */
  readonly seed: number
  readonly atOnce: number
  readonly windowMs: number
  readonly say: (line: string) => void
  /** Called with each result as it comes. */
  readonly done: (result: CellResult) => void
}

/** Every cell with every configuration that it is tried with. */
export function listPlaces(): readonly CellPlace[] {
  return cells.flatMap((cell) => cell.configurations.map((configuration) => ({ cell, configuration })))
}

const groundServices: Readonly<Partial<Record<GroundKind, readonly ServiceName[]>>> = {
  'other host': ['ip'],
  'clock ahead': ['faketime'],
  'clock behind': ['faketime'],
}
const asRoot: ReadonlySet<GroundKind> = new Set(['other host', 'small disk'])

/** Why a cell cannot be run on this machine. */
export function missingFor({ cell, configuration }: CellPlace): string | undefined {
  const wanted = [...servicesOf[configuration], ...(groundServices[cell.ground] ?? [])]
  const missing = wanted.filter((name) => serviceNamed(name).find() === undefined)
  if (missing.length > 0) return `needs ${missing.join(' and ')}`
  if (asRoot.has(cell.ground) && (process.platform !== 'linux' || process.getuid?.() !== 0))
    return 'needs root on Linux'
  return undefined
}

/** Answers how many failed. */
export async function runPlaces(places: readonly CellPlace[], options: MatrixOptions): Promise<number> {
  const { say } = options
  const { defer, clear } = cleanUpList()
  let passed = 0
  let failed = 0
  try {
    const template = await makeTemplate(defer)
    const queue = [...places.entries()]
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const [index, place] = next
        const what = `${place.cell.name} (${place.configuration})`
        const missing = missingFor(place)
        if (missing !== undefined) {
          if (process.env['CI'] === 'true') failed++
          say(`left out  ${what}: ${missing}`)
          continue
        }
        const { cell, configuration } = place
        const seed = options.seed + index
        const request = { cell: cell.name, configuration, seed, windowMs: options.windowMs, template }
        const result = await runInProcess(request)
        if (typeof result !== 'string') options.done(result)
        if (typeof result === 'string' || !result.passed) failed++
        else passed++
        for (const line of tell(place, seed, result)) say(line)
      }
    }
    await Promise.all(Array.from({ length: options.atOnce }, work))
  } finally {
    await clear()
  }
  say(`${passed} passed, ${failed} failed, of ${places.length} cells`)
  return failed
}

const main = fileURLToPath(new URL('cell-process.ts', import.meta.url))
const launcher = fileURLToPath(new URL('../../../scripts/run.mjs', import.meta.url))
const limitMs = 240_000

/** Its result, or how it ended without one. */
async function runInProcess(request: CellRequest): Promise<CellResult | string> {
  const args = [launcher, main, JSON.stringify(request)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const words = { out: '', error: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (words.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (words.error += text))
  const timer = setTimeout(() => child.kill('SIGTERM'), limitMs)
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  clearTimeout(timer)
  const line = words.out.trim().split('\n').at(-1) ?? ''
  if (line.startsWith('{')) return JSON.parse(line) as CellResult
  return `ended (${code ?? signal}) without a result:\n${words.error.slice(-4_000)}`
}

function tell(place: CellPlace, seed: number, result: CellResult | string): readonly string[] {
  const { cell, configuration } = place
  const what = `${cell.name} (${configuration})`
  const again = `npm run chaos -- --cell ${cell.name} --configuration ${configuration} --seed ${seed}`
  if (typeof result === 'string') return [`FAILED    ${what}: ${result}`, `          ${again}`]
  const late = `${result.worst} was ${result.worstLateMs ?? 0} ms late`
  const { runs, calls, lost, seconds } = result
  const facts = `${late}, ${runs} runs, ${calls} calls, ${lost} lost, ${seconds} s`
  if (result.passed) return [`ok        ${what}: ${facts}, seed ${seed}`]
  const file = join(tmpdir(), `belfry-chaos-${cell.name}-${configuration}-${seed}.log`)
  writeFileSync(file, `${result.log.join('\n')}\n`)
  return [
    `FAILED    ${what}: ${facts}`,
    ...result.faults.map((fault) => `          ${fault}`),
    ...result.diary.map((entry) => `          at ${entry}`),
    `          log: ${file}`,
    `          ${again}`,
  ]
}
