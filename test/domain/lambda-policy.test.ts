// Which functions of Lambda a job may name, by form and by the operator's word.
import { lambdaHandlerSchema, parseFunctionArn } from '@belfry/contract'
import { describe, expect, test } from 'vitest'
import { lambdaFaults, lambdaRegions } from '../../packages/server/src/domain/lambda-policy.ts'

const functionArn = 'arn:aws:lambda:eu-west-1:123456789012:function:report'
const roleArn = 'arn:aws:iam::123456789012:role/belfry-invoke'
const job = { kind: 'lambda', functionArn, roleArn }

const pointersOf = (more: object): readonly string[] => {
  const { error } = lambdaHandlerSchema.safeParse({ ...job, ...more })
  return (error?.issues ?? []).map((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys.join() : issue.path.join('/'),
  )
}

describe('the form of a job', () => {
  test('is filled in', () => {
    expect(lambdaHandlerSchema.parse(job)).toEqual({
      ...job,
      invocation: 'request_response',
      payload: 'envelope',
    })
  })

  // lambda.wildcard, lambda.region_host
  test.each([
    'arn:aws:lambda:*:*:function:*',
    'arn:aws:lambda:eu-west-1:123456789012:function:rep*',
    'arn:aws:lambda:eu-west-1:123456789012:function:report:*',
    'arn:aws:lambda:eu-west-1:123456789012:function:',
    'arn:aws:lambda:eu-west-1:123456789012:layer:report',
    'arn:aws:lambda:eu-west-1:12345:function:report',
    'arn:aws:lambda:us-east-1.evil.com/#:123456789012:function:report',
    'arn:aws:lambda:eu-west-1@evil:123456789012:function:report',
    'arn:aws:lambda:eu-west-1:123456789012:function:../../x',
    'arn:aws:lambda:eu-west-1:123456789012:function:report\n',
    'arn:aws:s3:::bucket',
    'arn:aws:lambda:cn-north-1:123456789012:function:report',
    'arn:aws-cn:lambda:eu-west-1:123456789012:function:report',
    'report',
    '',
  ])('is refused for the function %j', (bad) => {
    expect(pointersOf({ functionArn: bad })).toContain('functionArn')
  })

  test.each([
    ['no role', { roleArn: undefined }, 'roleArn'],
    ['no role: null', { roleArn: null }, 'roleArn'],
    ['a user as role', { roleArn: 'arn:aws:iam::123456789012:user/x' }, 'roleArn'],
    ['any role', { roleArn: 'arn:aws:iam::123456789012:role/*' }, 'roleArn'],
    ['a role of another partition', { roleArn: 'arn:aws-cn:iam::123456789012:role/x' }, 'roleArn'],
    ['an external id of his own', { externalId: null }, 'externalId'],
    ['a region', { region: 'us-east-1.evil.com/#' }, 'region'],
    ['an endpoint', { endpoint: 'http://169.254.169.254/' }, 'endpoint'],
    ['credentials', { credentials: 'chain' }, 'credentials'],
    ['another kind of call', { invocation: 'DryRun' }, 'invocation'],
  ])('is refused with %s', (_, more, pointer) => {
    expect(pointersOf(more)).toContain(pointer)
  })

  test('takes roles with a path, versions, aliases and other partitions', () => {
    expect(pointersOf({ roleArn: 'arn:aws:iam::123456789012:role/team/belfry.invoke' })).toEqual([])
    for (const tail of ['', ':1', ':live', ':$LATEST'])
      expect(pointersOf({ functionArn: functionArn + tail })).toEqual([])
    const china = {
      functionArn: 'arn:aws-cn:lambda:cn-north-1:123456789012:function:report',
      roleArn: 'arn:aws-cn:iam::123456789012:role/x',
    }
    expect(pointersOf(china)).toEqual([])
    expect(parseFunctionArn(`${functionArn}:live`)).toEqual({
      partition: 'aws',
      region: 'eu-west-1',
      account: '123456789012',
      name: 'report',
      qualifier: 'live',
    })
  })
})

describe('the operator', () => {
  const allowed = (functions: readonly string[], arn = functionArn, regions = lambdaRegions): boolean =>
    lambdaFaults({ functionArn: arn }, { functions, regions }).length === 0

  test.each([
    [[functionArn], functionArn, true],
    [[functionArn], `${functionArn}:live`, true],
    [[`${functionArn}:live`], `${functionArn}:live`, true],
    [[`${functionArn}:live`], `${functionArn}:1`, false],
    [[`${functionArn}:live`], functionArn, false],
    [['arn:aws:lambda:*:123456789012:function:rep*'], functionArn, true],
    [['arn:aws:lambda:*:123456789012:function:*-prod'], functionArn, false],
    [['arn:aws:lambda:eu-west-1:999999999999:function:*'], functionArn, false],
    [['arn:aws:lambda:eu-west-1:123456789012:function:repo'], functionArn, false],
    [[], functionArn, false],
  ])('with %j lets %s be called: %s', (functions, arn, expected) => {
    expect(allowed(functions, arn)).toBe(expected)
  })

  test('lists regions too, and what is not among them is refused by name', () => {
    expect(allowed(['arn:aws:lambda:*:*:function:*'], functionArn, ['us-east-1'])).toBe(false)
    const arn = 'arn:aws:lambda:xx-fake-9:123456789012:function:report'
    const [fault] = lambdaFaults(
      { functionArn: arn },
      { functions: ['arn:aws:lambda:*:*:function:*'], regions: lambdaRegions },
    )
    expect([fault?.pointer, fault?.message.includes('xx-fake-9')]).toEqual(['/handler/functionArn', true])
  })

  test('a pattern of many stars is judged at once', () => {
    const startedMs = performance.now()
    expect(allowed([`${'*a'.repeat(100)}*b`], `${functionArn}${'a'.repeat(60)}`)).toBe(false)
    expect(performance.now() - startedMs).toBeLessThan(50)
  })
})
