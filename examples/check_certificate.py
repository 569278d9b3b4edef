"""Checks a certificate of order-mirror against orders, without order-mirror; docs/certificates.md explains the format.
usage: check_certificate.py CHAIN.ndjson PUBLIC_KEY ORDERS.ndjson   (the orders of the last certificate in the chain)
Exits with 1 if anything is wrong. Needs Python 3.9 and the package cryptography."""
import base64, datetime, decimal, hashlib, json, re, struct, sys
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
TYPE = "application/vnd.in-toto+json"
LANES = int.from_bytes(b"\xff\xff\x00\x00" * 512, "little")  # every second lane of 16 bits

def require(condition, text):
    if not condition: sys.exit(f"wrong: {text}")

def signed_by(envelope, payload, key):
    text = f"DSSEv1 {len(TYPE)} {TYPE} {len(payload)} ".encode() + payload
    for signature in envelope["signatures"]:
        try: return Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(signature["sig"]), text) is None
        except InvalidSignature: continue
    return False

def number(value):  # as RFC 8785 writes it: like JavaScript
    sign, figures, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    digits, point = "".join(map(str, figures)), len(figures) + exponent
    if digits == "0": return "0"
    if len(digits) <= point <= 21: text = digits.ljust(point, "0")
    elif 0 < point <= 21: text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0: text = f"0.{'0' * -point}{digits}"
    else: text = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return "-" * sign + text

def canonical(value):  # RFC 8785
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list): return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float): return number(value)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", json.dumps(value, ensure_ascii=False))

def nanoseconds(text):  # an ISO 8601 time, exactly
    date, fraction, zone = re.fullmatch(r"([\dT:-]{16,19}?)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", text.upper()).groups()
    return int(datetime.datetime.fromisoformat(date + zone.replace("Z", "+00:00")).timestamp()) * 10**9 + int((fraction or "").ljust(9, "0")[:9])

def read_chain(file, key):
    before, certificate, revoked = None, None, set()
    for line in open(file, encoding="utf-8"):
        envelope = json.loads(line)
        payload = base64.b64decode(envelope["payload"])
        statement, digest = json.loads(payload), hashlib.sha256(payload).hexdigest()
        predicate, subject = statement["predicate"], list(statement["subject"][0]["digest"].values())[0]
        kind, place = re.search(r"#(\w+)-v1$", statement["predicateType"])[1], f"statement {predicate['serial']}"
        require(envelope["payloadType"] == TYPE and signed_by(envelope, payload, key), f"{place}: signature")
        link = predicate["source"], predicate["serial"] - 1, predicate["previous"]
        require(before in (None, link), f"{place} does not follow the one before it")
        before = predicate["source"], predicate["serial"], digest
        if kind == "key":
            key = base64.b64decode(predicate["publicKey"])
            require(signed_by(envelope, payload, key), f"{place} names a key that has not signed it")
        elif kind == "revocation": revoked.add(subject)
        elif kind == "completeness": certificate = predicate, subject, digest
    require(certificate is not None and certificate[2] not in revoked, "there is no certificate, or it was revoked")
    return certificate

def main(chain, public_key, orders):
    predicate, subject, _ = read_chain(chain, base64.b64decode(public_key))
    since, until = nanoseconds(predicate["since"]), nanoseconds(predicate["until"])
    sums, seen = [0, 0], set()
    for order in (json.loads(line, parse_int=float) for line in open(orders, encoding="utf-8", newline="\n")):
        reference, version = order["reference"], nanoseconds(order["updatedAt"])
        if not since <= version < until: continue  # the certificate is not about it
        require(reference not in seen, f"{reference}: twice")
        seen.add(reference)
        content = hashlib.sha256(canonical(order).encode()).hexdigest()
        parts = ["order-mirror state v1", predicate["source"], reference, str(version), content]
        element = b"".join(struct.pack(">I", len(part)) + part for part in map(str.encode, parts))
        lanes = int.from_bytes(hashlib.shake_256(element).digest(2048), "little")
        sums = [(total + (lanes >> 16 * half & LANES)) & LANES for half, total in enumerate(sums)]
    state = hashlib.sha256((sums[0] | sums[1] << 16).to_bytes(2048, "little")).hexdigest()
    require((len(seen), state) == (predicate["orders"], subject), "these are not the certified orders")
    print(f"right: {predicate['source']}, {predicate['since']} to {predicate['until']}, {len(seen)} orders")

main(*sys.argv[1:])
