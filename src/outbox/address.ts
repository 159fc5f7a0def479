import { invalid } from '../core/options.js'

/** Topics, and ids and headers of messages: as long as brokers take them. */
export function address(value: string, field: string): string {
  if (typeof value === 'string' && value.length > 0 && value.length <= most && printable.test(value))
    return value
  throw invalid(field, value, `a text of 1 to ${most} characters without control characters`, most)
}

const most = 255
const printable = /^[^\p{Cc}\p{Cs}]+$/u
