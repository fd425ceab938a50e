// How a process divides its connections: never more than it was given, and every part of it can work.
import { describe, expect, it } from 'vitest'
import { connectionShares } from '../../../packages/server/src/config/connection-shares.ts'
import { loadConfig } from '../../../packages/server/src/config/load.ts'

const sharesOf = (flags: Readonly<Record<string, unknown>>) => {
  const { config } = loadConfig({ flags })
  return { size: config.databasePoolSize, ...connectionShares(config) }
}

describe('the connections of a process', () => {
  it('are those for what must be in time, and halves of the rest', () => {
    expect(sharesOf({})).toEqual({ size: 16, leases: 3, api: 6, engine: 6 })
    expect(sharesOf({ roles: 'api' })).toEqual({ size: 16, leases: 1, api: 14, engine: 0 })
    expect(sharesOf({ roles: 'worker' })).toEqual({ size: 16, leases: 2, api: 0, engine: 13 })
    expect(sharesOf({ roles: 'scheduler,worker' })).toEqual({ size: 16, leases: 3, api: 0, engine: 12 })
    expect(sharesOf({ databaseHints: 'local' })).toEqual({ size: 16, leases: 3, api: 6, engine: 7 })
  })

  it('are no more than the setting says, whatever the roles, and at least one for each', () => {
    for (const databasePoolSize of [6, 7, 100]) {
      for (const roles of ['api', 'scheduler', 'worker', 'resolver', 'api,worker', 'api,scheduler,worker']) {
        const shares = sharesOf({ databasePoolSize, roles })
        const listen = 1
        expect(listen + shares.leases + shares.api + shares.engine).toBe(databasePoolSize)
        expect(shares.api > 0).toBe(roles.includes('api'))
        expect(shares.engine > 0).toBe(roles !== 'api')
      }
    }
  })
})
