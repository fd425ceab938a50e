// The Lambda handler on moto, an AWS by other hands: its STS gives out the credentials, its Lambda takes the
// calls. (It runs no code: a function answers what it was given, or what the test put in line, and is always
// there. What Lambda refuses is in lambda-handler.test.ts.)
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { createFunction, type LambdaRig, openLambdaRig } from '../support/lambda-rig.ts'
import { type MotoServer, startMotoServer } from '../support/moto-server.ts'
import { describeNeeding } from '../support/needs.ts'

const region = 'eu-west-1'
const account = '123456789012'
const functionArn = `arn:aws:lambda:${region}:${account}:function:report`

describeNeeding('moto', 'functions of Lambda, on moto', (python) => {
  let server: MotoServer
  let url: string
  let rig: LambdaRig

  beforeAll(async () => {
    server = await startMotoServer(python)
    url = `http://127.0.0.1:${server.port}`
    await post('/moto-api/config', {
      lambda: { use_docker: false },
      iam: { load_aws_managed_policies: false },
    })
    await createFunction(url, 'report')
  }, 90_000)
  afterAll(() => server.close())
  beforeEach(() => {
    rig = openLambdaRig({ endpoint: url })
  })
  afterEach(() => rig.close())

  async function post(path: string, body: object): Promise<void> {
    const answer = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`moto: ${path}: ${await answer.text()}`)
  }

  it('assumes a role, calls the function, and takes its answer as the result', async () => {
    const done = await rig.handler.execute(rig.request({ functionArn }))
    expect(done).toMatchObject({ outcome: 'succeeded', httpStatus: 200 })
    expect(done).toHaveProperty('result.input', { month: 'may' })
    expect(done).toHaveProperty('result.belfry.idempotencyKey', '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f')
  })

  it('calls an alias, and a version', async () => {
    for (const qualifier of ['live', '1', '$LATEST']) {
      const request = rig.request({ functionArn: `${functionArn}:${qualifier}`, payload: 'input' })
      expect(await rig.handler.execute(request), qualifier).toMatchObject({
        outcome: 'succeeded',
        result: { month: 'may' },
      })
    }
  })

  it('hands over an event', async () => {
    const done = await rig.handler.execute(rig.request({ functionArn, invocation: 'event' }))
    expect(done).toMatchObject({ outcome: 'succeeded', httpStatus: 202 })
  })

  it('takes whatever JSON a function answers', async () => {
    await post('/moto-api/static/lambda-simple/response', { results: ['[1,2]', '"text"', 'null'], region })
    const results: unknown[] = []
    for (let n = 0; n < 3; n++) results.push(await rig.handler.execute(rig.request({ functionArn })))
    expect(results).toMatchObject([{ result: [1, 2] }, { result: 'text' }, { result: null }])
  })
})
