// Where a run may be claimed, and the lane in which its turn is counted.
import { expect, test } from 'vitest'
import {
  functionLane,
  functionRoute,
  laneOf,
  partsOfLane,
  routeOf,
} from '../../packages/server/src/domain/route.ts'

const tenant = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'

test('a function has a route of its own, which names its tenant', () => {
  expect(routeOf({ kind: 'function', name: 'mail.send' }, tenant)).toBe(`function:${tenant}:mail.send`)
  expect(routeOf({ kind: 'http', url: 'http://a.invalid/', method: 'POST', headers: {} }, tenant)).toBe(
    'http',
  )
})

test('what servers execute is in the lane of its queue, functions are in one of their tenant', () => {
  expect(laneOf('mail', 'http')).toBe('mail')
  expect(laneOf('mail', functionRoute(tenant, 'mail.send'))).toBe(functionLane('mail', tenant))
})

test('a lane can be taken apart again', () => {
  expect(partsOfLane('mail')).toEqual({ queue: 'mail', tenantId: null })
  expect(partsOfLane(functionLane('mail', tenant))).toEqual({ queue: 'mail', tenantId: tenant })
})
