/**
 * Which functions of AWS Lambda jobs may call at all, by the operator's word: regions and ARNs are listed,
 * and what is not listed is refused. Judged when a job is stored and again when it is called.
 */
import { type LambdaHandlerDefinition, parseFunctionArn } from '@belfry/contract'
import type { EgressFault } from './egress/egress-policy.ts'

export interface LambdaPolicy {
  /** ARNs of functions; `*` stands for any characters. */
  readonly functions: readonly string[]
  readonly regions: readonly string[]
}

/** Regions in which Lambda is offered; an operator may list others. */
export const lambdaRegions: readonly string[] = `
  us-east-1 us-east-2 us-west-1 us-west-2 ca-central-1 ca-west-1 mx-central-1 sa-east-1 eu-central-1
  eu-central-2 eu-north-1 eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1
  me-south-1 af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1
  ap-south-2 ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6
  ap-southeast-7 cn-north-1 cn-northwest-1 us-gov-east-1 us-gov-west-1
`
  .trim()
  .split(/\s+/)

/** Whether a text fits a pattern in which `*` stands for any characters; no part is looked for twice. */
function fits(pattern: string, text: string): boolean {
  const [first = '', ...parts] = pattern.split('*')
  if (!text.startsWith(first)) return false
  if (parts.length === 0) return text === pattern
  const last = parts.at(-1) ?? ''
  let at = first.length
  for (const part of parts.slice(0, -1)) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return text.length - last.length >= at && text.endsWith(last)
}

/** An entry without a version or alias stands for all of them. */
function isListed(functions: readonly string[], arn: string, qualifier: string | undefined): boolean {
  const bare = qualifier === undefined ? arn : arn.slice(0, -qualifier.length - 1)
  return functions.some((pattern) => fits(pattern, arn) || fits(pattern, bare))
}

/** Pointers are into the body of a job. Empty: it may be called. */
export function lambdaFaults(
  { functionArn }: Pick<LambdaHandlerDefinition, 'functionArn'>,
  { functions, regions }: LambdaPolicy,
): readonly EgressFault[] {
  const fault = (message: string): readonly EgressFault[] => [
    { code: 'invalid_target', pointer: '/handler/functionArn', message },
  ]
  const arn = parseFunctionArn(functionArn)
  if (arn === undefined) return fault('is not the ARN of one function')
  if (functions.length === 0) {
    return fault(
      'cannot be called: this server lists no functions; its operator sets BELFRY_LAMBDA_FUNCTIONS',
    )
  }
  if (!regions.includes(arn.region)) {
    return fault(`is in the region ${arn.region}, which is not among those of BELFRY_LAMBDA_REGIONS`)
  }
  if (isListed(functions, functionArn, arn.qualifier)) return []
  return fault('is not among the functions that its operator listed in BELFRY_LAMBDA_FUNCTIONS')
}
