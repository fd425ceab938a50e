// `belfry demo --cluster`, as a person starts it: with Redis and Kafka, and with neither of them installed.
// It must end by itself, with exit code 0, after it has killed what leads and what works.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { describeNeeding } from '../support/needs.ts'

const launcher = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
const limit = { timeout: 480_000 }

async function demo(seconds: number, env: Record<string, string | undefined>) {
  const child = spawn(process.execPath, [launcher, 'demo', '--cluster', '--for', String(seconds)], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output }
}

/** A `*** ` line tells of an act. */
const acts = (output: string) => output.split('\n').filter((line) => line.includes('*** '))

it('says what is missing, runs without it, and loses nothing', limit, async () => {
  const { code, output } = await demo(15, { PATH: dirname(process.execPath), KAFKA_HOME: undefined })
  expect(output).toMatch(/Redis +not found on PATH; .*apt-get install redis-server/)
  expect(output).toMatch(/Kafka +not found \(java is not on PATH\); .*KAFKA_HOME/)
  expect(acts(output).join('\n')).toMatch(
    /kill -9 scheduler-\d .*which led \d+ of 64[^]*scheduler-\d leads all 64 shards[^]*kill -9 worker-\d/,
  )
  expect(output).not.toContain('kill -9 of')
  expect(output).toMatch(/^once +60 +60 {2}ok$/m)
  expect(output, output).toContain('Nothing was lost.')
  expect(code, output).toBe(0)
})

describeNeeding('redis', 'with Redis', () => {
  describeNeeding('kafka', 'and Kafka', (jars) => {
    it('kills these, too, and loses nothing', limit, async () => {
      const { code, output } = await demo(20, { KAFKA_HOME: jars })
      expect(output).toMatch(/Redis +on port \d+/)
      expect(output).toMatch(/Kafka +on port \d+/)
      expect(acts(output).join('\n')).toMatch(/kill -9 of Redis[^]*Redis is back[^]*kill -9 of Kafka/)
      expect(output, output).toContain('Nothing was lost.')
      expect(code, output).toBe(0)
    })
  })
})
