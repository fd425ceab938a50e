/**
 * A Belfry with nothing to do does next to nothing: one process with all roles and 1,000 schedules far ahead,
 * watched for half a minute. Bounded is what it asks Postgres: the scheduler looks ahead twice a minute and
 * never each second, the one poll of the worker comes once a second at most, and all roles together stay
 * below two and three quarters transactions a second. The processor time is printed, and bounded with room
 * for slow machines.
 */
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '@belfry/sdk'
import { expect, it } from 'vitest'
import { arenaHarness } from './support/arena.ts'
import { openStatementLog } from './support/statement-log.ts'

const scheduleCount = 1_000
const watchMs = 30_000
/** Ticks of /proc/<pid>/stat a second: fixed by Linux' interface. */
const ticksASecond = 100

const harness = arenaHarness()

/** User and system time of a process, ms. */
function processorMs(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksASecond
}

async function planFarAhead(client: Client, target: string): Promise<void> {
  await client.jobs.create({ name: 'far', handler: { kind: 'http', url: target } })
  const names = Array.from({ length: scheduleCount }, (_, index) => `far-${index}`)
  for (let from = 0; from < names.length; from += 20) {
    const some = names.slice(from, from + 20)
    await Promise.all(
      some.map((name, index) =>
        client.schedules.create({ name, job: 'far', cron: `${index} 3 1 1 *`, zone: 'Europe/Berlin' }),
      ),
    )
  }
}

it(`asks the database next to nothing with ${scheduleCount} schedules far ahead`, async (context) => {
  if (!existsSync('/proc/self/stat')) {
    context.skip('the processor time of another process is read from /proc, which is not here')
    return
  }
  // the defaults of a server: the arena's own are short
  const arena = await harness.open({
    env: {
      BELFRY_LEASE_MS: '30000',
      BELFRY_HEARTBEAT_MS: '10000',
      BELFRY_TERM_MS: '15000',
      BELFRY_RESCUE_MS: '5000',
    },
  })
  const node = await arena.start('idle')
  await planFarAhead(arena.client(), `${arena.ledger.url}/work`)
  const [row] = await arena.rows<{ n: number }>('SELECT count(*)::int AS n FROM belfry.timer')
  expect(row?.n).toBe(scheduleCount)

  const log = await openStatementLog(arena)
  const beforeMs = processorMs(node.pid)
  const startedMs = performance.now()
  await wait(watchMs)
  const seconds = (performance.now() - startedMs) / 1_000
  const share = (processorMs(node.pid) - beforeMs) / (10 * seconds)
  const counts = log.counts()
  const entered = [...counts].filter(([name]) => name.startsWith('belfry_enter_scope'))
  const transactions = entered.reduce((sum, [, count]) => sum + count, 0)
  const named = [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => `  ${count} ${name}`)
  const rate = (transactions / seconds).toFixed(2)
  process.stdout.write(
    `idle: ${share.toFixed(2)} % of a processor, ${rate} transactions a second\n${named.join('\n')}\n`,
  )

  const frame = new Set(['BEGIN', 'COMMIT', ...entered.map(([name]) => name)])
  const busiest = [...counts].filter(([name]) => !frame.has(name)).map(([, count]) => count)
  expect(transactions, 'the log must show what is asked').toBeGreaterThan(0)
  expect(transactions, named.join('\n')).toBeLessThan(2.75 * seconds)
  expect(Math.max(...busiest), named.join('\n')).toBeLessThanOrEqual(seconds + 1)
  expect(counts.get('timers_scan') ?? 0, named.join('\n')).toBeLessThanOrEqual(3)
  expect(share).toBeLessThan(5)
})
