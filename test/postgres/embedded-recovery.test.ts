// What is left when Belfry or Postgres dies in the wrong moment. Invariant throughout: never two
// postmasters on one data directory, nothing committed is lost, and no stranger is touched.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../packages/server/src/postgres/database.ts'
import type { EmbeddedExit } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import { commandLine, pidExists } from '../../packages/server/src/postgres/embedded/process-identity.ts'
import { chooseRunAs } from '../../packages/server/src/postgres/embedded/unprivileged.ts'
import { embeddedHarness, query, until } from '../support/embedded-harness.ts'
import { realClock, realRandom } from '../support/real-clock.ts'

const place = embeddedHarness()

describe('unclean deaths', () => {
  it('starts Postgres again when it is killed, keeps what was committed, and clients heal', async () => {
    const server = await place.start()
    await query(server, 'CREATE TABLE kept AS SELECT 7 AS n')
    const exits: EmbeddedExit[] = []
    server.onExit((exit) => exits.push(exit))
    const db = openDatabase({ connection: server.adminConnection, clock: realClock, random: realRandom })
    try {
      await db.ping()
      const before = server.pid
      process.kill(before, 'SIGKILL')
      await until('another postmaster serves', async () => {
        if (server.pid === before) return false
        return db.ping().then(
          () => true,
          () => false,
        )
      })
      expect(exits).toEqual([{ code: null, signal: 'SIGKILL', expected: false }])
      expect(await query(server, 'SELECT n FROM kept')).toEqual([{ n: 7 }])
      expect(place.postmasters()).toEqual([server.pid])
    } finally {
      await db.close()
    }
  })

  it('waits for, and then ends, an old backend that outlives its postmaster', async () => {
    const server = await place.start()
    const before = server.pid
    const busy = query(
      server,
      'SELECT count(*) FROM generate_series(1, 100000000000) WHERE random() > 2',
    ).catch(() => undefined)
    await until('the backend is busy', async () => {
      const rows = await query(
        server,
        `SELECT FROM pg_stat_activity
           WHERE query LIKE '%random() > 2%' AND state = 'active' AND pid <> pg_backend_pid()`,
      )
      return rows.length === 1
    })
    process.kill(before, 'SIGKILL')
    await until('another postmaster serves', () => server.pid !== before)
    await busy
    expect(await query(server, 'SELECT 1 AS n')).toEqual([{ n: 1 }])
    expect(place.postmasters()).toEqual([server.pid])
  })

  it('is stopped by its watchdog when Belfry is killed', async () => {
    const owner = place.spawnOwner()
    const { pid } = await owner.report
    expect(place.watchdogs()).toHaveLength(1)
    await owner.killHard()
    await until('the postmaster has ended', () => !pidExists(pid))
    await until('the watchdog has ended', () => place.watchdogs().length === 0)
    const server = await place.start()
    expect(server.created).toBe(false)
  })

  it('stops an orphan that lost its watchdog too, and never runs two', async () => {
    const owner = place.spawnOwner()
    const { pid } = await owner.report
    for (const watchdog of place.watchdogs()) process.kill(watchdog, 'SIGKILL')
    await owner.killHard()
    expect(pidExists(pid)).toBe(true)
    expect(place.postmasters()).toEqual([pid])
    let most = 0
    const counting = setInterval(() => {
      most = Math.max(most, place.postmasters().length)
    }, 5)
    try {
      const server = await place.start()
      expect(server.pid).not.toBe(pid)
      expect(pidExists(pid)).toBe(false)
      expect(place.words.join()).toContain(`Stopped an orphaned Postgres (pid ${pid})`)
    } finally {
      clearInterval(counting)
    }
    expect(most).toBe(1)
  })

  it('ignores a postmaster.pid of a dead process', async () => {
    const server = await place.start()
    await server.stop()
    writePidFile(2_147_483_646)
    expect((await place.start()).created).toBe(false)
  })

  it('does not touch a stranger that got the number of a dead postmaster', async () => {
    const server = await place.start()
    await server.stop()
    const runAs = chooseRunAs(join(place.dataDir, 'postgres'))
    const identity = runAs === undefined ? {} : { uid: runAs.uid, gid: runAs.gid }
    const stranger = spawn('/bin/sleep', ['1000'], { cwd: '/', stdio: 'ignore', ...identity })
    try {
      await until('the stranger runs', () => commandLine(stranger.pid ?? 0)?.includes('sleep') === true)
      writePidFile(stranger.pid ?? 0)
      expect((await place.start()).created).toBe(false)
      expect(stranger.exitCode ?? stranger.signalCode).toBeNull()
    } finally {
      stranger.kill('SIGKILL')
    }
  })

  function writePidFile(pid: number): void {
    const cluster = join(place.dataDir, 'postgres')
    const lines = [
      pid,
      cluster,
      1_700_000_000,
      5432,
      join(place.dataDir, 'postgres-run'),
      '',
      '  5432001         0',
      'ready',
    ]
    writeFileSync(join(cluster, 'postmaster.pid'), `${lines.join('\n')}\n`, { mode: 0o600 })
  }
})
