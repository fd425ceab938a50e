// The settings of Lambda, and the address for reports of targets: what goes together, what does not, and that
// no fault shows a secret.
import { expect, it, test } from 'vitest'
import { openCallbacks } from '../../../packages/server/src/compose/callbacks.ts'
import { lambdaAccess } from '../../../packages/server/src/compose/lambda.ts'
import { loadConfig } from '../../../packages/server/src/config/load.ts'
import type { Database } from '../../../packages/server/src/postgres/database.ts'

const functions = { BELFRY_LAMBDA_FUNCTIONS: 'arn:aws:lambda:eu-west-1:123456789012:function:belfry-*' }
const keys = {
  BELFRY_LAMBDA_ACCESS_KEY_ID: 'AKIAEXAMPLE',
  BELFRY_LAMBDA_SECRET_ACCESS_KEY: 's3cret-of-lambda',
}

const faultsOf = (env: Readonly<Record<string, string>>): string => {
  try {
    loadConfig({ env })
  } catch (error) {
    return String(error)
  }
  return ''
}

it('calls nothing unless functions are listed, and knows every region', () => {
  const access = lambdaAccess(loadConfig({ env: {} }).config)
  expect(access).toMatchObject({ enabled: false, functions: [], principal: null })
  expect(access.regions).toContain('eu-west-1')
  const principal = 'arn:aws:iam::111111111111:user/belfry'
  const env = {
    ...functions,
    ...keys,
    BELFRY_LAMBDA_PRINCIPAL: principal,
    BELFRY_LAMBDA_REGIONS: 'eu-west-1',
  }
  expect(lambdaAccess(loadConfig({ env }).config)).toEqual({
    enabled: true,
    functions: ['arn:aws:lambda:eu-west-1:123456789012:function:belfry-*'],
    regions: ['eu-west-1'],
    principal,
  })
})

it.each([
  [functions, 'none of this machine are used'],
  [{ BELFRY_LAMBDA_ACCESS_KEY_ID: 'AKIAEXAMPLE' }, 'go together'],
  [{ BELFRY_LAMBDA_SECRET_ACCESS_KEY: 's3cret-of-lambda' }, 'go together'],
  [{ ...keys, BELFRY_LAMBDA_FUNCTIONS: '*' }, 'is no ARN of functions'],
  [{ ...keys, BELFRY_LAMBDA_FUNCTIONS: 'arn:aws:s3:::x' }, 'is no ARN of functions'],
  [{ BELFRY_LAMBDA_REGIONS: 'eu-west-1.evil.com/#' }, 'not the name of a region'],
  [{ BELFRY_LAMBDA_ENDPOINT: 'ftp://x' }, 'is not a URL'],
  [{ BELFRY_LAMBDA_PRINCIPAL: 'belfry' }, 'not the ARN of a user or role'],
])('with %j it does not start, and says why', (env, words) => {
  const faults = faultsOf(env)
  expect(faults).toContain(words)
  expect(faults).not.toContain('s3cret')
})

test.each([
  [{}, 'http://127.0.0.1:4680', 'http://127.0.0.1:4680'],
  [{}, 'http://[::1]:4680', 'http://[::1]:4680'],
  [{}, 'http://10.1.2.3:4680', undefined],
  [{}, undefined, undefined],
  [
    { BELFRY_PUBLIC_URL: 'https://belfry.example.com/x/' },
    'http://127.0.0.1:4680',
    'https://belfry.example.com/x',
  ],
])('with %j, and an API at %s, targets report to %s', async (env, listensAt, base) => {
  const { config } = loadConfig({ env })
  const db = { run: async () => [{ run_id: 'r' }] } as unknown as Database
  const callbacks = openCallbacks(config, db)
  if (listensAt !== undefined) callbacks.listensAt(listensAt)
  const told = await callbacks.door.open('s', { tenantId: 't', runId: 'r', leaseEpoch: 1 }).then(
    (opened) => opened?.url,
    (error: unknown) => String(error),
  )
  expect(told).toContain(base === undefined ? 'BELFRY_PUBLIC_URL' : `${base}/v1/callbacks/r`)
})
