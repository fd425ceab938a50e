// Numbers of the benches: percentiles, rounding, what machine it was, and the last line.
import { arch, cpus, loadavg, release, totalmem } from 'node:os'

export interface Spread {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** Of measured times, ms. NaN where nothing was measured. */
export function spreadOf(times: readonly number[]): Spread {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number =>
    round(sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN)
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** To so many digits that count: 0.0123 stays 0.0123, 1234.5 becomes 1235. */
export function round(value: number, digits = 3): number {
  if (!Number.isFinite(value)) return value
  const rounded = Number(value.toPrecision(digits))
  return Math.abs(value) >= 10 ** (digits - 1) ? Math.round(value) : rounded
}

export const ratioOf = (ours: number, theirs: number | undefined): number | null =>
  theirs === undefined || !(theirs > 0) ? null : round(ours / theirs)

export const showSpread = ({ count, p50, p99, max }: Spread): string =>
  `p50 ${p50} ms, p99 ${p99} ms, most ${max} ms (${count})`

/** What it was measured on, and how busy that was with other things when the bench began. */
export function machine(): Record<string, string | number> {
  const [first] = cpus()
  return {
    processor: first?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${release()} ${arch()}`,
    node: process.version,
    loadBefore: round(loadavg()[0] ?? 0),
  }
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** The last line of a bench. */
export function finish(figures: Record<string, unknown>): void {
  say(JSON.stringify(figures))
}
