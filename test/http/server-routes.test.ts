// What a server tells of itself, and replans of zones, as the API answers them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { startTestApi, type TestApi } from '../support/api.ts'
import { runAlone } from '../cli/support/cli.ts'
import { newId } from '../support/running.ts'

let t: TestApi
beforeAll(async () => {
  t = await startTestApi()
})
afterAll(() => t.close())

describe('GET /v1/server', () => {
  it('tells version, time and zone data to any key', async () => {
    const { dataVersion: version, source, path } = openZoneSource()
    for (const key of [await t.keyFor('acme', ['enqueue']), await t.keyFor('acme', ['platform'])]) {
      const { status, body } = await t.call('GET', '/v1/server', { key })
      expect(status).toBe(200)
      expect(body).toEqual({
        version: '0.0.0-test',
        time: expect.stringMatching(/^\d{4}-.*Z$/) as string,
        zoneData: { version, source, path, newestOnRecord: null },
      })
    }
  })

  it('goes by the clock of the database, and knows of newer data elsewhere', async () => {
    await t.database.useVirtualNow(new Date('2031-02-03T04:05:06.789Z'))
    await t.database.sql(
      `INSERT INTO belfry.zone_data (zone, rules_from, data_version, changed_in)
       VALUES ('Europe/Berlin', now(), '2099b', '2099b'), ('Asia/Tokyo', now(), '2099a', '2098a')`,
    )
    const { body } = await t.call('GET', '/v1/server')
    expect(body).toMatchObject({
      time: '2031-02-03T04:05:06.789Z',
      zoneData: { newestOnRecord: '2099b' },
    })
  })
})

describe('GET /v1/replans', () => {
  it('lists those of zones, newest first, page by page', async () => {
    const key = await t.keyFor('acme', ['platform'])
    const add = async (toVersion: string, columns: string, values: string) => {
      const id = newId()
      const text = `INSERT INTO belfry.replan
        (id, kind, subject, from_version, to_version, requested_at, ${columns})
        VALUES ($1, 'zone', 'Europe/Berlin', '2098a', $2, '2031-01-01T00:00:00Z', ${values})`
      await t.database.sql(text, [id, toVersion])
      return id
    }
    const first = await add('2099a', 'total', '7')
    const ended = `'done', 2, 2, 1, 1, 'schedule x: bad', '2031-01-01T00:00:01Z', '2031-01-01T00:00:02Z'`
    const second = await add('2099b', 'state, total, done, moved, failed, error, started_at, ended_at', ended)
    await t.database.sql(
      `INSERT INTO belfry.replan (id, kind, subject, tenant_id, to_version)
       VALUES ($1, 'calendar', $2, $3, '2')`,
      [newId(), newId(), t.tenantId],
    )
    const page = await t.call('GET', '/v1/replans?limit=1', { key })
    const common = { zone: 'Europe/Berlin', fromVersion: '2098a', requestedAt: '2031-01-01T00:00:00.000Z' }
    const counts = { total: 2, done: 2, moved: 1, failed: 1 }
    expect(page.body.items).toEqual([
      {
        ...common,
        ...counts,
        id: second,
        state: 'done',
        toVersion: '2099b',
        error: 'schedule x: bad',
        startedAt: '2031-01-01T00:00:01.000Z',
        endedAt: '2031-01-01T00:00:02.000Z',
      },
    ])
    const rest = await t.call('GET', `/v1/replans?limit=5&cursor=${page.body.nextCursor}`, { key })
    expect(rest.body.items).toMatchObject([{ id: first, state: 'pending', total: 7, startedAt: null }])
    expect(rest.body.nextCursor).toBeNull()
  })

  it('are shown by the command line', async () => {
    const env = {
      BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
      BELFRY_API_KEY: await t.keyFor('acme', ['platform']),
      XDG_CONFIG_HOME: '/nonexistent',
      TZ: 'UTC',
    }
    const { code, out } = await runAlone(['replan', 'list'], { env })
    expect(code).toBe(0)
    expect(out).toMatch(/^ZONE +FROM +TO +STATE +DONE +MOVED +ASKED FOR/)
    expect(out).toMatch(/Europe\/Berlin +2098a +2099b +done \(1 failed: schedule x: bad\) +2\/2 +1 /)
    expect(out).toMatch(/Europe\/Berlin +2098a +2099a +pending +0\/7 +0 /)
  })

  it('is for the platform only', async () => {
    expect((await t.call('GET', '/v1/replans')).body).toMatchObject({ status: 403, code: 'forbidden' })
  })
})
