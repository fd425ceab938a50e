/**
 * The benches that compare Belfry with its peers, or a part of it with another, run, in their shortest form,
 * and end with one JSON object of the shape that their readers expect. Their figures are of no interest here:
 * other tests share the machine.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { describeNeeding } from '../support/needs.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const limitMs = 240_000

/** The last line of `npm run bench:<name> -- --seconds 1`. */
async function lastLine(name: string): Promise<Record<string, unknown>> {
  const bench = spawn(process.execPath, ['scripts/run.mjs', `test/bench/${name}.ts`, '--seconds', '1'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const limit = setTimeout(() => bench.kill('SIGTERM'), limitMs)
  let output = ''
  let errors = ''
  bench.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  bench.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString()
  })
  const code = await new Promise((resolve) => bench.once('close', resolve))
  clearTimeout(limit)
  expect(code, errors).toBe(0)
  return JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, unknown>
}

const figure = expect.any(Number) as unknown

describe('benches on Postgres alone', () => {
  it('compares the remote worker with the embedded library', async () => {
    expect(await lastLine('remote')).toMatchObject({ runsPerSecond: figure, ratio: { embedded: figure } })
  })

  it('measures what limits let through', async () => {
    const each = { limit10: figure, limit100: figure, keys1000: figure, keys10000: figure }
    expect(await lastLine('gate')).toMatchObject({ runsPerSecond: { none: figure, ...each }, ratio: each })
  })

  it('measures workflows', async () => {
    const each = { oneTask: figure, fanOutItems: figure, fanOutTasks: figure }
    expect(await lastLine('workflow')).toMatchObject({
      hopMs: { count: 1_000, p50: figure, p99: figure },
      runsPerSecond: { plain: figure, ...each },
      ratio: each,
      oneTask: { startsPerSecond: figure, closedLoopPerSecond: figure },
      save: { tasks: 5_000, newMs: figure, changedMs: figure },
    })
  })

  it('measures under a snapshot that is held', async () => {
    const found = await lastLine('held-snapshot')
    expect(found).toMatchObject({
      runsPerSecond: { without: figure, held: figure },
      ratio: { without: figure },
      flat: figure,
    })
    expect(found['windows']).toHaveLength(10)
  })
})

describeNeeding('kafka', 'benches with Kafka', () => {
  it('compares runs that are announced with those that are not', async () => {
    expect(await lastLine('carrier')).toMatchObject({
      runsPerSecond: figure,
      ratio: { postgres: figure },
      singleMs: { postgres: figure, kafka: figure },
    })
  })
})

describeNeeding('redis', 'benches beside BullMQ', () => {
  it('compares the throughput', async () => {
    const ratio = { 'graphile-worker': figure, 'pg-boss': figure, bullmq: figure }
    expect(await lastLine('throughput')).toMatchObject({
      runsPerSecond: figure,
      insertPerSecond: figure,
      ratio,
      insertRatio: ratio,
    })
  })

  it('compares the lateness', async () => {
    const ratio = { bullmq: figure, 'graphile-worker': figure }
    expect(await lastLine('lateness')).toMatchObject({
      p99: figure,
      ratio,
      shortNotice: { p99: figure, ratio },
      herd: { schedules: 200, lastStartMs: figure, started: 200 },
      immediate: { oneProcess: { p50: figure, ratio }, twoProcesses: { p50: figure, ratio } },
    })
  })
})
